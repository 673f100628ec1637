"""Tables of texts: CSV, TSV, JSON Lines or lines that begin with a label; columns by name or number.

A plain or gzipped UTF-8 file. Cells are text; a number or a truth value of JSON is text as JSON writes it.
An object inside a record gives a column for each of its keys: {"translation": {"en": ...}} has the column
"translation.en". In CSV a cell in quotes may hold delimiters and line feeds; in TSV nothing is quoted.
"""

import csv
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.data.corpus import read_lines
from regard.errors import DataError, did_you_mean

Format = Literal["csv", "tsv", "jsonl", "labelled"]

SAMPLE = 1000  # records that tell whether there is a header, and which delimiter
DELIMITERS = ",;\t|"  # of a CSV file, the usual one first
SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


def _words(names: str) -> tuple[str, ...]:
    return tuple(names.split())


TEXT_NAMES = _words(
    "text sentence sentences review comment content message question utterance tweet body document"
)
LABEL_NAMES = _words(
    "label labels class category sentiment polarity intent topic tag stars rating score value grade"
)
SOURCE_NAMES, TARGET_NAMES = _words("source src input"), _words("target tgt output translation")
OTHER_NAMES = _words("id idx index title date author split")
NAMES = {*TEXT_NAMES, *LABEL_NAMES, *SOURCE_NAMES, *TARGET_NAMES, *OTHER_NAMES}
LANGUAGES = _words(
    "arabic basque bengali bulgarian catalan chinese croatian czech danish dutch english esperanto "
    "estonian finnish french galician german greek hebrew hindi hungarian icelandic indonesian irish "
    "italian japanese korean latin latvian lithuanian malay norwegian persian polish portuguese "
    "romanian russian serbian slovak slovenian spanish swahili swedish tamil thai turkish ukrainian "
    "urdu vietnamese welsh"
)
_CODE = re.compile(r"[a-z]{2,3}([-_]([A-Z]{2}|[A-Z][a-z]{3}))?")  # de, deu, de_AT, zh-Hans
_LABELLED = re.compile(r"(?:__label__(\S+)|(-?\d+)) +(\S.*)")  # as fastText writes it, or a number first


class Record(NamedTuple):
    """A row: the line on which it begins, from 1, and what stands in each column, None for nothing."""

    line: int
    cells: tuple[str | None, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A file of records, to be read again and again."""

    path: Path
    format: Format
    names: tuple[str, ...]  # of its columns; their numbers, from 0, where the file does not name them
    named: bool  # by the first line of a CSV or TSV file, or by the keys of JSON
    delimiter: str = "\t"

    def records(self) -> Iterator[Record]:
        """All records, the header left out.

        Raises:
            DataError: a line with too many or too few columns, or one that is not JSON; it is named.
        """
        if self.format == "jsonl":
            yield from (
                Record(line, tuple(map(cells.get, self.names))) for line, cells in _objects(self.path)
            )
            return
        found = _records(self.path, self.format, self.delimiter)
        for line, cells in itertools.islice(found, int(self.named and self.format != "labelled"), None):
            if len(cells) != len(self.names):
                raise DataError(
                    f"{self.path}:{line}: {_width(len(cells))}, but line 1 has {len(self.names)}", _MEND
                )
            yield Record(line, tuple(cells))

    def columns(self, wanted: Sequence[str]) -> tuple[int, ...]:
        """Where the columns called so stand: by name, by the last part of a name, by number.

        Raises:
            DataError: there is no such column, or several.
        """
        return tuple(self._column(name) for name in wanted)

    def _column(self, name: str) -> int:
        if self.names.count(name) == 1:
            return self.names.index(name)
        inner = [place for place, each in enumerate(self.names) if each.endswith(f".{name}")]
        if len(inner) == 1:
            return inner[0]
        if name.isdecimal() and int(name) < len(self.names):
            return int(name)
        raise DataError(f"{self.path}: no column {name!r}", did_you_mean(name, self.names))


_MEND = "mend the line; in CSV a text with a delimiter in it stands in quotes"


def format_of(path: Path) -> Format | None:
    """What kind of table a file is, by the end of its name or else by its first lines; None: plain text."""
    name = path.name.lower().removesuffix(".gz")
    if (known := SUFFIXES.get(Path(name).suffix)) is not None:
        return known
    lines = [line for line in itertools.islice(read_lines(path), SAMPLE) if line and not line.isspace()]
    if not lines:
        return None
    if lines[0].lstrip().startswith("{") and _is_object(lines[0]):
        return "jsonl"
    if len({line.count("\t") for line in lines}) == 1 and "\t" in lines[0]:
        return "tsv"
    return "labelled" if all(_LABELLED.fullmatch(line) for line in lines) else None


def open_table(path: Path, kind: Format) -> Table:
    """The table in a file, its columns found out.

    Raises:
        DataError: it has no record, or is no table.
    """
    if kind == "jsonl":
        keys = dict.fromkeys(key for _, cells in itertools.islice(_objects(path), SAMPLE) for key in cells)
        if not keys:
            raise DataError(f"{path}: no record", "give a file with one JSON object a line")
        return Table(path=path, format=kind, names=tuple(keys), named=True)
    if kind == "labelled":
        return Table(path=path, format=kind, names=("text", "label"), named=True)
    delimiter = _delimiter(path) if kind == "csv" else "\t"
    first = [cells for _, cells in itertools.islice(_records(path, kind, delimiter), SAMPLE)]
    if not first:
        raise DataError(f"{path}: no record", "give a file with a record a line")
    if len(first[0]) < 2 and kind == "tsv":
        raise DataError(
            f"{path}:1: no tab, so there is one column", "columns of a TSV file stand between tabs"
        )
    named = _is_header(first)
    names = [cell.strip() or str(place) for place, cell in enumerate(first[0])]
    if not named:
        names = [str(place) for place in range(len(first[0]))]
    return Table(path=path, format=kind, names=tuple(names), named=named, delimiter=delimiter)


def _width(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


def _records(path: Path, kind: Format, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The line and the cells of each record, a header among them. Empty lines are none."""
    lines = read_lines(path)
    if kind == "csv":
        yield from _quoted(path, lines, delimiter)
        return
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        if kind == "tsv":
            yield number, line.split("\t")
        elif found := _LABELLED.fullmatch(line):
            yield number, (found[3], found[1] or found[2])
        else:
            label, _, text = line.partition(" ")
            yield number, (text, label)


def _quoted(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    number = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{path}:{number}: not CSV ({error})", "is a quote opened and never closed?"
            ) from None
        if cells is None:
            return
        if any(cells):
            yield number, cells
        number = reader.line_num + 1


def _delimiter(path: Path) -> str:
    """The one that gives the first records one width, the widest; a comma where none does."""
    lines, widths = list(itertools.islice(read_lines(path), SAMPLE)), {}
    for each in DELIMITERS:
        try:
            found = {len(cells) for _, cells in _quoted(path, lines, each)}
        except DataError:
            continue
        widths[each] = max(found, default=0) if len(found) == 1 else 0
    return (
        max(DELIMITERS, key=lambda each: widths.get(each, 0)) if max(widths.values(), default=0) > 1 else ","
    )


def _is_header(records: Sequence[Sequence[str]]) -> bool:
    """True if the first record names the columns.

    It does if a name is well known or all are languages, if numbers begin below it, or if it stands above
    values of which there are few and is none of them.
    """
    first, rest = [cell.strip() for cell in records[0]], records[1:]
    if len(set(first)) < len(first) or any(len(cells) != len(first) for cells in rest):
        return bool({cell.casefold() for cell in first} & NAMES)
    if all(cell.casefold() in LANGUAGES or _CODE.fullmatch(cell) for cell in first):
        return True
    for place, cell in enumerate(first):
        below = [cells[place].strip() for cells in rest]
        values = set(below)
        if cell in values or not below:
            continue
        if cell.casefold() in NAMES:
            return True
        if is_number(next(iter(values))) and all(map(is_number, values)) and not is_number(cell):
            return True
        if len(below) >= 16 and len(values) <= len(below) / 8 and cell and not any(map(is_number, values)):
            return True
    return False


def is_number(text: str) -> bool:
    """True if a text is a number as programs write it."""
    return re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", text) is not None


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _objects(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The line and the columns of each JSON object; what is no text, number or truth value is left out."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line or line.isspace():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            hint = "give one JSON object a line: jq -c '.[]' turns a list into such lines"
            raise DataError(f"{path}:{number}: not JSON ({str(error).splitlines()[0]})", hint) from None
        if not isinstance(record, dict):
            hint = "give one JSON object a line: jq -c '.[]' turns a list into such lines"
            raise DataError(f"{path}:{number}: a JSON {type(record).__name__}, not an object", hint)
        yield number, dict(_flat(record))


def _flat(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", text) for inner, text in _flat(value))
        elif isinstance(value, str):
            yield key, value
        elif isinstance(value, bool | int | float):
            yield key, json.dumps(value)
