"""Puts the results into benchmarks/README.md, between the comments that delimit each table.

python -m benchmarks.common.report [--quick]
"""

import argparse
import re
from pathlib import Path

from benchmarks.common.results import FOLDER, read

PAGE = Path(__file__).parent.parent / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="print the quick results, and write nothing")
    if parser.parse_args().quick:
        for path in sorted(FOLDER.glob("*-quick.json")):
            print(f"\n## {path.stem}\n\n{read(path).markdown()}")
        return
    text = PAGE.read_text("utf-8")
    for path in sorted(FOLDER.glob("*.json")):
        if not path.stem.endswith("-quick"):
            text = filled(text, path.stem, tables(path))
    PAGE.write_text(text, "utf-8")
    print(f"written: {PAGE}")


def tables(path: Path) -> str:
    """The tables of a file of results, and those of the same part by other processors."""
    others = sorted(path.parent.glob(f"*/{path.name}"))
    return "\n\n".join(read(each).markdown() for each in [path, *others])


def filled(text: str, part: str, found: str) -> str:
    """`text` with `found` between the delimiting comments of `part`.

    Raises:
        ValueError: it has no such comments.
    """
    begin, end = f"<!-- results of {part} -->", "<!-- end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no place for the results of {part}: put {begin} and {end} where they belong")
    return pattern.sub(lambda _: f"{begin}\n\n{found}\n\n{end}", text)


if __name__ == "__main__":
    main()
