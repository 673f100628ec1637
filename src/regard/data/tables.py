"""Tables of texts: CSV, TSV, JSON Lines or lines with a label first; columns by name or number.

Files are UTF-8, plain or gzipped. Cells are text; a number or boolean of JSON becomes text as JSON writes it.
An object inside a record has one column for each key: {"translation": {"en": ...}} has the column
"translation.en". In CSV a quoted cell may hold delimiters and line feeds; in TSV nothing is quoted.
"""

import csv
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.counted import counted
from regard.data.column_names import WORD_LIST_NAMES, is_header, is_number
from regard.data.files import read_lines
from regard.data.json_lines import parse_record
from regard.errors import DataError, did_you_mean

TableFormat = Literal["csv", "tsv", "jsonl", "labelled"]

MAX_CLASSES = 500
MAX_LABEL_LENGTH = 40  # mean characters of a label
SAMPLED_RECORDS = 1000  # records that are examined to detect a header and the delimiter
DELIMITERS = ",;\t|"  # of a CSV file, the most usual first
SUFFIXES: dict[str, TableFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
_SEPARATOR = re.compile(rf"sep=([{DELIMITERS}])")  # the first line of a CSV file that Excel is to open
_LABELLED = re.compile(r"(?:__label__(\S+)|(-?\d+)) +(\S.*)")  # a label of fastText, or a number first


class Record(NamedTuple):
    """A row: the number of its first line, from 1, and its cells; None for a missing value.

    `written`: the line as it is, of JSON.
    """

    line: int
    cells: tuple[str | None, ...]
    written: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A file of records; it can be read repeatedly."""

    path: Path
    format: TableFormat
    names: tuple[str, ...]  # of the columns; numbers from 0 if the file has no names
    named: bool  # True if the file has names: a header in CSV or TSV, keys in JSON
    delimiter: str = "\t"

    def records(self, *, empty: bool = False) -> Iterator[Record]:
        """All records, without the header; those of CSV and TSV whose cells are all `empty` if asked for.

        Raises:
            DataError: a line has too many or too few columns, or is not JSON; the message has its number.
        """
        if self.format == "jsonl":
            yield from (
                Record(number, tuple(map(_cells(record).get, self.names)), line)
                for number, line, record in _json_records(self.path)
            )
            return
        found = _records(self.path, self.format, self.delimiter, empty=empty)
        for line, cells in itertools.islice(found, int(self.named and self.format != "labelled"), None):
            if len(cells) != len(self.names):
                raise DataError(
                    f"{self.path}:{line}: {counted(len(cells), 'column')}, but line 1 has {len(self.names)}",
                    _CORRECT if self.format == "csv" else _CORRECT_TSV,
                )
            yield Record(line, tuple(cells))

    def of_all_records(self) -> tuple["Table", tuple[str, ...]]:
        """The table with the keys of all records of JSON as columns; and the keys of lists, which are none.

        Raises:
            DataError: a line is not JSON.
        """
        if self.format != "jsonl":
            return self, ()
        names, lists = dict.fromkeys(self.names), dict[str, None]()
        for _, _, record in _json_records(self.path):
            names |= dict.fromkeys(_cells(record))
            lists |= dict.fromkeys(key for key, value in _flat(record) if isinstance(value, list))
        return replace(self, names=tuple(names)), tuple(lists)

    def line_with(self, key: str) -> int | None:
        """The first line of JSON whose object has this key; None if none has.

        Raises:
            DataError: a line is not JSON.
        """
        return next((number for number, _, record in _json_records(self.path) if key in record), None)

    def is_header(self, record: Record) -> bool:
        """True for a record that repeats the header, as in files that were joined."""
        return (
            self.named
            and self.format in ("csv", "tsv")
            and tuple((cell or "").strip() for cell in record.cells) == self.names
        )

    def number(self, cell: str) -> str:
        """A cell as `float` reads it, if it is a number: a CSV file with semicolons has decimal commas."""
        if self.format == "csv" and self.delimiter == ";" and _DECIMAL_COMMA.fullmatch(cell):
            return cell.replace(",", ".")
        return cell

    def columns(self, wanted: Sequence[str]) -> tuple[int, ...]:
        """The indices of columns, found by name, by the last part of a name, or by number.

        Raises:
            DataError: there is no such column, or several.
        """
        return tuple(column_index(self.names, name, str(self.path)) for name in wanted)


def column_index(names: Sequence[str], wanted: str, place: str) -> int:
    """The index of a column, found by name, by the last part of a name, or by number.

    Raises:
        DataError: there is no such column in the file or store `place`, or several.
    """
    if names.count(wanted) == 1:
        return names.index(wanted)
    inner = [number for number, each in enumerate(names) if each.endswith(f".{wanted}")]
    if len(inner) == 1:
        return inner[0]
    if wanted.isdecimal() and int(wanted) < len(names):
        return int(wanted)
    if names.count(wanted) > 1:
        numbers = " and ".join(str(number) for number, name in enumerate(names) if name == wanted)
        raise DataError(
            f"{place}: {names.count(wanted)} columns have the name {wanted!r}", f"choose by number: {numbers}"
        )
    raise DataError(f"{place}: no column {wanted!r}", did_you_mean(wanted, names))


_CORRECT = "correct the line; in CSV a text that contains the delimiter needs quotes"
_AS_CSV = "in TSV nothing is quoted; a file with quoted cells is read as CSV if its name ends in .csv"
_CORRECT_TSV = f"correct the line; {_AS_CSV}"


def format_by_name(path: Path) -> TableFormat | None:
    """The table format of a file that its suffix says, if it does."""
    return SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def format_of(path: Path) -> TableFormat | None:
    """The table format of a file, by its suffix or else by its first lines; None for plain text."""
    if (known := format_by_name(path)) is not None:
        return known
    lines = [
        line for line in itertools.islice(read_lines(path), SAMPLED_RECORDS) if line and not line.isspace()
    ]
    if not lines:
        return None
    if lines[0].lstrip().startswith("{") and _is_object(lines[0]):
        return "jsonl"
    if len({line.count("\t") for line in lines}) == 1 and "\t" in lines[0]:
        return "tsv"
    return "labelled" if all(_LABELLED.fullmatch(line) for line in lines) else None


def open_table(path: Path, kind: TableFormat) -> Table:
    """Opens a table and detects its columns.

    Raises:
        DataError: the file has no record, or is not a table.
    """
    if kind == "jsonl":
        keys = dict.fromkeys(
            key
            for _, _, record in itertools.islice(_json_records(path), SAMPLED_RECORDS)
            for key in _cells(record)
        )
        if not keys:
            if lists := list_keys(path):
                raise refused_lists(path, lists)
            raise DataError(f"{path}: no record", "give a file with one JSON object per line")
        return Table(path=path, format=kind, names=tuple(keys), named=True)
    if kind == "labelled":
        return Table(path=path, format=kind, names=("text", "label"), named=True)
    delimiter = _delimiter(path) if kind == "csv" else "\t"
    first = [cells for _, cells in itertools.islice(_records(path, kind, delimiter), SAMPLED_RECORDS)]
    if not first:
        raise DataError(f"{path}: no record", "give a file with one record per line")
    if len(first[0]) < 2 and kind == "tsv":
        raise DataError(
            f"{path}:1: no tab, so there is only one column", "separate the columns of a TSV file by tabs"
        )
    if kind == "tsv" and _is_quoted(first):
        raise DataError(f"{path}: all texts are in quotes, which would become part of them", _AS_CSV)
    unnamed = Table(path=path, format=kind, names=(), named=False, delimiter=delimiter)
    named = is_header([[unnamed.number(cell) for cell in cells] for cells in first])
    names = [cell.strip() or str(place) for place, cell in enumerate(first[0])]
    if not named:
        names = [str(place) for place in range(len(first[0]))]
    return Table(path=path, format=kind, names=tuple(names), named=named, delimiter=delimiter)


def list_keys(path: Path) -> tuple[str, ...]:
    """The keys of JSON whose values are lists in one of the first records.

    Raises:
        DataError: a line is not JSON.
    """
    records = itertools.islice(_json_records(path), SAMPLED_RECORDS)
    return tuple(
        dict.fromkeys(
            key for _, _, record in records for key, value in _flat(record) if isinstance(value, list)
        )
    )


def refused_lists(path: Path, lists: Sequence[str]) -> DataError:
    """The error of a file of JSON whose texts or labels are in lists, under these keys."""
    names = ", ".join(map(repr, lists))
    if any(name.rpartition(".")[2].casefold() in WORD_LIST_NAMES for name in lists):
        return DataError(
            f"{path}: the values under {names} are lists: words and their labels are not read from JSON",
            "write a word, a tab and its label on each line, an empty line after each sentence: FILE.bio",
        )
    return DataError(
        f"{path}: the values under {names} are lists: a text has one label (no multi-label classification)",
        "give each text one label, as a text or number; --task language_model reads the texts alone",
    )


def _is_quoted(records: Sequence[Sequence[str]]) -> bool:
    """True if all cells but numbers are in quotes, in two records or more."""
    texts = [cell for cells in records for cell in cells if cell and not is_number(cell)]
    return len(records) > 1 and bool(texts) and all(re.fullmatch(r'"(?:[^"]|"")*"', text) for text in texts)


def _records(
    path: Path, kind: TableFormat, delimiter: str, *, empty: bool = False
) -> Iterator[tuple[int, Sequence[str]]]:
    """The line number and the cells of each record, the header included.

    Those without any text are left out; with `empty` only those before the first other one.
    """
    started = False
    for number, cells in _rows(path, kind, delimiter):
        if has_text := any(cell and not cell.isspace() for cell in cells):
            started = True
        if has_text or (empty and started):
            yield number, cells


def _rows(path: Path, kind: TableFormat, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The line number and the cells of each line that is not empty, or of each record of CSV."""
    lines = read_lines(path)
    if kind == "csv":
        yield from _quoted(path, lines, delimiter)
        return
    for number, line in enumerate(lines, start=1):
        if kind == "tsv" and "\t" in line:
            yield number, line.split("\t")
        elif not line or line.isspace():
            continue
        elif kind == "tsv":
            yield number, [line]
        elif found := _LABELLED.fullmatch(line):
            yield number, (found[3], found[1] or found[2])
        else:
            label, _, text = line.partition(" ")
            yield number, (text, label)


def _quoted(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The first line and the cells of each CSV record."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    number = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{path}:{number}: not CSV ({error})", "is a quote opened but never closed?"
            ) from None
        if cells is None:
            return
        if cells and not (number == 1 and _SEPARATOR.fullmatch(delimiter.join(cells))):
            yield number, cells
        number = reader.line_num + 1


def _delimiter(path: Path) -> str:
    """The declared delimiter, or that which splits the first records into equally many columns, and most.

    A comma if none does.
    """
    lines, widths = list(itertools.islice(read_lines(path), SAMPLED_RECORDS)), {}
    if lines and (declared := _SEPARATOR.fullmatch(lines[0])):
        return declared[1]
    for each in DELIMITERS:
        try:
            found = {len(cells) for _, cells in _quoted(path, lines, each) if any(cells)}
        except DataError:
            continue
        widths[each] = max(found, default=0) if len(found) == 1 else 0
    return (
        max(DELIMITERS, key=lambda each: widths.get(each, 0)) if max(widths.values(), default=0) > 1 else ","
    )


def one_line(cell: str | None) -> str:
    """A cell on one line, without tabs, which a TSV file cannot have, and without invalid characters."""
    return re.sub("[\t\n\r\v\f\0\ud800-\udfff]+", " ", cell or "").strip()


def _is_object(line: str) -> bool:
    try:
        parse_record(line, refuses_duplicates=False)
    except ValueError:
        return False
    return True


def _cells(record: dict[str, Any]) -> dict[str, str]:
    """The columns of a record; only texts, numbers and booleans become columns."""
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in _flat(record)
        if isinstance(value, str | bool | int | float)
    }


def _json_records(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The number of each line, the line, and its record."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line or line.isspace():
            continue
        try:
            record = parse_record(line)
        except ValueError as error:
            hint = (
                "give one JSON object per line, with each key once; jq -c '.[]' turns a list into such lines"
            )
            raise DataError(f"{path}:{number}: {error}", hint) from None
        yield number, line, record


def _flat(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values that are no objects, each under the names that lead to it."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", each) for inner, each in _flat(value))
        else:
            yield key, value
