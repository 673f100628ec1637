"""Statistics of a table's columns: which hold texts, labels or numbers."""

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from regard.data.column_names import LABEL_NAMES, is_number
from regard.data.image_files import has_image_name
from regard.data.tables import MAX_CLASSES, MAX_LABEL_LENGTH, Table

SAMPLED_RECORDS = 20_000  # at the beginning of a table
_FORMATTED = re.compile(  # 1,007.50 and $ 5 and 12 %: numbers that `float` does not read
    r"\s*[-+]?[$€£¥]?\s?(\d+|\d{1,3}([,.'\u00a0\u202f ]\d{3})+)([,.]\d+)?\s?[%$€£¥]?\s*"
)

_WHOLE = re.compile(r"[-+]?\d+(\.0*)?")  # pandas writes whole numbers as 1.0 if some are missing
MISSING_WORDS = frozenset(["na", "n/a", "#n/a", "<na>", "nan", "-nan", "+nan", "none", "null"])

CellKind = Literal["text", "label", "number", "other"]


def is_missing(cell: str) -> bool:
    """True for a word that programs write for a missing value, such as NA."""
    return cell.strip().casefold() in MISSING_WORDS


@dataclass(kw_only=True)
class Column:
    """Statistics of the cells of a column."""

    name: str
    values: set[str] = field(default_factory=set)
    filled: int = 0
    characters: int = 0
    numeric: int = 0  # cells that are numbers
    numbers: bool = True  # True if all cells are numbers, apart from words for a missing value
    formatted: bool = True  # the same for numbers in any notation, as 1,007.50
    whole: bool = True
    rising: bool = True  # True for whole numbers that increase, as record numbers do
    _last: float = float("-inf")

    def add(self, cell: str | None) -> None:
        """Add the next cell; empty cells are ignored."""
        if cell is None or not cell.strip():
            return
        self.filled += 1
        self.characters += len(cell)
        self.values.add(cell)
        if is_missing(cell):
            return
        number = is_number(cell)
        self.numeric += number
        self.numbers = self.numbers and number
        self.formatted = self.formatted and (number or _FORMATTED.fullmatch(cell) is not None)
        self.whole = self.whole and number and _WHOLE.fullmatch(cell.strip()) is not None
        self.rising = self.rising and self.whole and float(cell) > self._last
        self._last = float(cell) if self.numbers else self._last

    @property
    def short_name(self) -> str:
        """The last part of a dotted name: `translation.en` is "en"."""
        return self.name.rpartition(".")[2].casefold()

    @property
    def formatted_number(self) -> str | None:
        """A cell with separators or a unit, if all cells are numbers and some are so written."""
        if self.numbers or not self.formatted:
            return None
        return min(each for each in self.values if not is_number(each) and not is_missing(each))

    @property
    def names_images(self) -> bool:
        """True if all cells are names of image files."""
        return bool(self.values) and all(has_image_name(Path(value)) for value in self.values)

    @property
    def mean_length(self) -> float:
        """The mean number of characters of a cell."""
        return self.characters / max(self.filled, 1)

    @property
    def kind(self) -> CellKind:
        """What the column holds: labels have few different values, numbers are not record numbers."""
        share = 2 if self.short_name in LABEL_NAMES else 8  # texts of a class, at least
        few = 1 < len(self.values) <= min(MAX_CLASSES, max(2, self.filled // share))
        numbers = self.numbers and self.numeric > 0
        if not self.filled or self.short_name in ("id", "idx", "index") or (self.rising and self.filled > 2):
            return "other"
        if (
            few
            and self.mean_length <= MAX_LABEL_LENGTH
            and (not numbers or (self.whole and len(self.values) <= 20))
        ):
            return "label"
        return "number" if numbers else "text" if len(self.values) > 1 else "other"


def columns_of(table: Table) -> list[Column]:
    """Statistics of each column, from the first records."""
    columns = [Column(name=name) for name in table.names]
    for record in itertools.islice(table.records(), SAMPLED_RECORDS):
        for column, cell in zip(columns, record.cells, strict=True):
            column.add(cell if cell is None else table.number(cell))
    return columns
