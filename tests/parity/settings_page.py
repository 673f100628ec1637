"""The tables of families and settings in docs/reference/pretrained-settings.md, read and written."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.parity.settings_table import ABSENT, SettingsTable

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pretrained-settings.md"
END = "<!-- end -->"
Cells = Mapping[str, Sequence[str]]  # of each row, by its label


def begin(title: str) -> str:
    """The comment before the table of this title."""
    return f"<!-- settings: {title} -->"


def part(text: str, title: str) -> str:
    """What the page has between the comments of a table.

    Raises:
        ValueError: the page has no such comments.
    """
    found = re.search(re.escape(begin(title)) + r"\n\n(.*?)\n\n" + re.escape(END), text, re.DOTALL)
    if found is None:
        raise ValueError(f"no {begin(title)} with {END}")
    return found[1]


def written(title: str, columns: Sequence[str], cells: Cells) -> str:
    """The table of Markdown; rows that no column has are left out."""
    rows = [(label, row) for label, row in cells.items() if {*row} != {ABSENT}]
    lines = [("setting", columns), ("---", ["---"] * len(columns)), *rows]
    return "\n".join(f"| {' | '.join((label, *row))} |" for label, row in lines)


def filled(text: str, title: str, columns: Sequence[str], cells: Cells) -> str:
    """The page with a table between its comments."""
    old = f"{begin(title)}\n\n{part(text, title)}\n\n{END}"
    return text.replace(old, f"{begin(title)}\n\n{written(title, columns, cells)}\n\n{END}")


def documented(text: str, title: str) -> tuple[list[str], dict[str, list[str]]]:
    """The columns of a table of the page, and the cells of each of its rows."""
    lines = [line[2:-2].split(" | ") for line in part(text, title).splitlines()]
    return lines[0][1:], {label: cells for label, *cells in lines[2:]}


def columns_of(table: SettingsTable) -> list[str]:
    """The names of the families, as code."""
    return [f"`{family}`" for family in table.families]
