"""Tables as inputs of a job: TSV and JSON Lines, whose output is the same table with one more column."""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from regard.data.json_lines import parse_record, text_field, with_field
from regard.data.tables import SUFFIXES, column_index
from regard.errors import DataError, did_you_mean
from regard.jobs.inputs import PARQUET, InputFile, read_piece
from regard.jobs.members import COMPRESSIONS
from regard.jobs.part_record import FailedLine
from regard.jobs.rows import LineRows, Result, chunks_of

TableKind = Literal["tsv", "jsonl", "parquet"]
ResultKind = Literal["text", "number", "vector", "json"]
KINDS: dict[str, TableKind] = {
    PARQUET: "parquet",
    **{suffix: kind for suffix, kind in SUFFIXES.items() if kind in ("tsv", "jsonl")},
}
CSV_ALONE = (
    "a quoted cell of CSV may have several lines, so that no part can begin at any of them: without --shard"
    " and --on the command reads a column of one such file; or write it as .tsv, .jsonl or .parquet first"
)
LOOKED_AT = 100  # records in which a key is searched


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """The columns that a job reads, and the column that it adds.

    `texts`: by name or number; the texts of several are joined by tabs. `result`: what the new column holds.
    """

    texts: Sequence[str]
    into: str
    result: ResultKind


def table_kind(url: str) -> TableKind | None:
    """The kind of a table by the name of its file; None if it is none that a job reads by column."""
    name = PurePosixPath(url.lower())
    if name.suffix in COMPRESSIONS:
        name = name.with_suffix("")
        return None if name.suffix == PARQUET else KINDS.get(name.suffix)
    return KINDS.get(name.suffix)


def is_csv(url: str) -> bool:
    """True for the name of a CSV file, compressed or not."""
    name = PurePosixPath(url.lower())
    return ".csv" in (name.suffix, name.with_suffix("").suffix if name.suffix in COMPRESSIONS else "")


def kind_of(inputs: Sequence[InputFile]) -> TableKind | None:
    """The kind of the tables of a job; None if there are none.

    Raises:
        DataError: one is not a table, or they are of several kinds.
    """
    first: TableKind | None = None
    for file in inputs:
        kind = table_kind(file.url)
        if kind is None:
            known = ", ".join(sorted(KINDS))
            raise DataError(
                f"{file.url} has no columns: its name does not end with one of {known}",
                CSV_ALONE if is_csv(file.url) else "leave --column out if each line is a text",
            )
        if first not in (None, kind):
            raise DataError(
                f"{file.url} is another kind of table than {inputs[0].url}", "give each kind a job of its own"
            )
        first = kind
    return first


class TsvRows(LineRows):
    """The lines of a table, whose cells have tabs between them; nothing is quoted.

    A column that is given by its name is one of the first line; one that is given by its number, from 0, is
    of a table without such a line. All lines have as many cells as the first.
    """

    def __init__(self, file: InputFile, begin: int, end: int, columns: TableColumns) -> None:
        super().__init__(file, begin, end)
        self.columns, self.named = columns, has_names(columns)
        first = next(read_piece(file, 0, file.size), b"")
        self.names = super().text(first).split("\t")
        if not self.named:
            self.names = [str(number) for number in range(len(self.names))]
        self._places = [column_index(self.names, each, file.url) for each in columns.texts]

    def chunks(self) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """The lines but that of the names."""
        lines = read_piece(self.file, self.begin, self.end)
        skipped = int(self.named and self.begin == 0)
        return ((chunk, chunk) for chunk in chunks_of(itertools.islice(lines, skipped, None)))

    def text(self, row: bytes) -> str:
        """The cell of a line, or its cells."""
        cells = super().text(row).split("\t")
        if len(cells) != len(self.names):
            raise DataError(
                f"{len(cells)} columns, but line 1 has {len(self.names)}",
                "in TSV nothing is quoted, so no cell has a tab or a line feed",
            )
        return "\t".join(cells[place] for place in self._places)

    def head(self) -> bytes:
        """The names, in the output of a file's first part."""
        if not self.named or self.begin:
            return b""
        return "\t".join([*self.names, self.columns.into]).encode() + b"\n"

    def written(self, chunk: Sequence[bytes], results: Sequence[Result]) -> bytes:
        """The lines with one more cell."""
        return b"".join(map(self._written, chunk, results))

    def _written(self, raw: bytes, result: Result) -> bytes:
        cell = "" if isinstance(result, FailedLine) or result is None else _cell(result)
        line, others = raw.removesuffix(b"\n").removesuffix(b"\r"), len(self.names) - 1
        if line.count(b"\t") != others:  # it is not a row of this table
            line = b"\t" * others
        return line + b"\t" + cell.encode("utf-8") + b"\n"


def has_names(columns: TableColumns) -> bool:
    """True if a TSV file's first line has the names of its columns."""
    return not all(each.isdecimal() for each in columns.texts)


def tsv_shape(file: InputFile, columns: TableColumns) -> str:
    """The columns of a TSV file.

    Raises:
        DataError: it lacks a column, or has the new one.
    """
    rows = TsvRows(file, 0, file.size, columns)
    if rows.named and columns.into in rows.names:
        raise taken(file, columns.into)
    return "\t".join(rows.names)


def _cell(result: Any) -> str:
    if isinstance(result, str):
        return " ".join(result.replace("\n", "\t").replace("\r", "\t").split("\t"))
    return json.dumps(result, ensure_ascii=False)


class JsonRows(LineRows):
    """Lines of JSON, each a record; what was in it stays as it was."""

    def __init__(self, file: InputFile, begin: int, end: int, columns: TableColumns) -> None:
        super().__init__(file, begin, end)
        self.columns = columns

    def text(self, row: bytes) -> str:
        """The text under a key, or the texts."""
        try:
            record = parse_record(super().text(row), refuses_duplicates=False)
            if self.columns.into in record:
                raise ValueError(f"{self.columns.into!r} is there already")
            return "\t".join(text_field(record, key) for key in self.columns.texts)
        except ValueError as error:
            raise DataError(str(error), "each line is an object with this key") from None

    def written(self, chunk: Sequence[bytes], results: Sequence[Result]) -> bytes:
        """The lines with one more key."""
        return "".join(map(self._written, chunk, results)).encode("utf-8")

    def _written(self, raw: bytes, result: Result) -> str:
        value = None if isinstance(result, FailedLine) else result
        try:
            line = super().text(raw).strip()
            record = parse_record(line, refuses_duplicates=False)
        except (DataError, ValueError):
            line, record = "{}", {}
        if self.columns.into in record:
            return line + "\n"
        return with_field(line, self.columns.into, value) + "\n"


def refuse_missing_keys(file: InputFile, columns: TableColumns) -> None:
    """Raise a DataError if no record at the beginning of a file has a key, or one has the new key."""
    rows, names = JsonRows(file, 0, file.size, columns), dict[str, None]()
    for raw in itertools.islice(read_piece(file, 0, file.size), LOOKED_AT):
        try:
            record = parse_record(LineRows.text(rows, raw), refuses_duplicates=False)
        except (DataError, ValueError):
            continue
        if columns.into in record:
            raise taken(file, columns.into)
        names |= dict.fromkeys(record)
    for key in columns.texts:
        if key not in names and key.split(".")[0] not in names:
            raise DataError(f"{file.url}: no record has the key {key!r}", did_you_mean(key, names))


def taken(file: InputFile, name: str) -> DataError:
    """The error of a table that has a column of that name."""
    return DataError(f"{file.url} has a column {name!r} already", "give another name: --into NAME")
