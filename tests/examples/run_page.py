"""Run the cells of a page of the tutorial in one namespace, as a notebook does: `python run_page.py PAGE.md`.

A cell with the tag `raises-exception` must fail. A last line that is an expression is evaluated, not shown.
"""

import sys
import traceback
from pathlib import Path

import jupytext
import matplotlib

MUST_FAIL = "raises-exception"


def main(page: Path) -> None:
    matplotlib.use("agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for cell in jupytext.read(page).cells:
        if cell.cell_type != "code":
            continue
        must_fail = MUST_FAIL in cell.metadata.get("tags", ())
        try:
            exec(compile(cell.source, str(page), "exec"), namespace)
        except Exception:
            if not must_fail:
                print(f"this cell failed:\n\n{cell.source}\n", file=sys.stderr)
                raise
            traceback.print_exc(limit=0, file=sys.stdout)
        else:
            assert not must_fail, f"this cell should have failed:\n\n{cell.source}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
