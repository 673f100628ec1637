"""Writes the cells of the documented tables of settings from what the tests find.

    python -m tests.exports.write_settings_tables

Each row is exported with both bases, which must agree. Without llama.cpp its table stays as it is. A new row
needs a name and a value; its cells may be any words.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.exports import test_ctranslate2_settings, test_gguf_settings, test_huggingface_folder
from tests.exports.engine_models import BASES
from tests.exports.settings_table import GGUF_TABLE, KINDS, PAGE, TABLE

CELLS = ("equal", "refused", "absent")


def main() -> None:
    text = PAGE.read_text("utf-8")
    for name, value, *old in TABLE:
        new = [
            agreed(lambda folder, base, of=of, kind=kind: of(kind, base, name, value, folder), BASES)  # noqa: B023
            for of in (test_ctranslate2_settings.result, test_huggingface_folder.result)
            for kind in KINDS
        ]
        text = replaced(text, name, value, old, new)
    if importlib.util.find_spec("llama_cpp") is not None:
        for name, value, *old in GGUF_TABLE:
            new = [
                agreed(lambda folder, base: test_gguf_settings.result(base, name, value, folder), [base])  # noqa: B023
                for base in test_gguf_settings.BASES
            ]
            text = replaced(text, name, value, old, new)
    PAGE.write_text(text, "utf-8")


def agreed(found: Callable[[Path, str], str], bases: Iterable[str]) -> str:
    """What a row has to say with each of the bases.

    Raises:
        ValueError: they differ, or it is neither equal nor refused by its name.
    """
    cells = set()
    for base in bases:
        with tempfile.TemporaryDirectory() as folder:
            cells.add(found(Path(folder), base))
    if len(cells) != 1 or not cells <= {*CELLS}:
        raise ValueError(f"no cell for {sorted(cells)}")
    return cells.pop()


def replaced(text: str, name: str, value: str, old: list[str], new: list[str]) -> str:
    """The page with other cells in a row."""
    row = f"| `{name}` | `{value}` | "
    return text.replace(f"{row}{' | '.join(old)} |\n", f"{row}{' | '.join(new)} |\n")


if __name__ == "__main__":
    main()
