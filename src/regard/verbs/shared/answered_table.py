"""A table as it was, with more columns: the answers to the texts of another."""

import csv
import io
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from regard import console
from regard.data.json_lines import with_field
from regard.data.tables import Record, Table, one_line
from regard.errors import DataError
from regard.verbs.shared.file_formats import TableOutput
from regard.verbs.shared.table_cells import named_table, opened_pairs, places_of_pairs, table_cells

NAMED_KEYS = 10  # of those that are left out


@dataclass(frozen=True, kw_only=True)
class AnsweredTable:
    """A table of which a column, or two, are answered by new ones, `into`, as CSV, TSV or JSON Lines.

    A CSV file keeps its delimiter, a record of JSON all that is in it. What is read and not yet written is
    kept in memory.
    """

    table: Table
    places: tuple[int, ...]
    into: tuple[str, ...]
    kind: TableOutput
    _waiting: deque[Record] = field(default_factory=deque)

    @classmethod
    def of(
        cls, file: str | Path, column: str, into: str, kind: TableOutput, more: Sequence[str] = ()
    ) -> "AnsweredTable":
        """Open the table in a file; its new columns are `into` and `more`.

        A warning names the lists of JSON that become no column.

        Raises:
            DataError: it has no such column, or has the new one, or is not JSON. UserError: it is no table.
        """
        table = _written_table(named_table(file, column), file, (into, *more), kind)
        return cls(table=table, places=table.columns([column]), into=(into, *more), kind=kind)

    @classmethod
    def of_completions(
        cls, file: str | Path, columns: Sequence[str], into: str, kind: TableOutput, more: Sequence[str] = ()
    ) -> "AnsweredTable":
        """Open the table in a file of prompts and completions, in these columns, or in those detected.

        Raises:
            DataError: as of `of`, or the file is no table, or its columns cannot be detected.
        """
        opened = opened_pairs(file, completions=True)
        table = _written_table(opened, file, (into, *more), kind)
        places = places_of_pairs(table if columns else opened, columns, completions=True)
        return cls(table=table, places=places, into=(into, *more), kind=kind)

    def texts(self, *, as_written: bool = False) -> Iterator[str]:
        """The texts of the column, each on one line, unless they are read `as_written`."""
        return (text for [text] in self._cells(as_written))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The texts of two columns, as they are written."""
        return cast(Iterator[tuple[str, str]], self._cells(True))

    def _cells(self, as_written: bool) -> Iterator[tuple[str, ...]]:
        for record, cells in table_cells(self.table, self.places, empty=True, as_written=as_written):
            self._waiting.append(record)
            yield cells

    def rows(self, answers: Iterable[Sequence[Any]]) -> Iterator[str]:
        """The lines of the new table, from the new cells of each record, in order."""
        if self.table.named and self.kind != "jsonl":
            yield self._row([*self.table.names, *self.into])
        for answer in answers:
            record = self._waiting.popleft()
            if self.kind == "jsonl":
                yield self._record(record, answer)
            else:
                yield self._row([*record.cells, *map(_cell, answer)])

    def _record(self, record: Record, answer: Sequence[Any]) -> str:
        """A line of JSON: the one that was read, or an object of cells, each under the name of its column."""
        added = dict(zip(self.into, answer, strict=True))
        if record.written:
            line = record.written
            for name, value in added.items():
                line = with_field(line, name, value)
            return line + "\n"
        cells = {**dict(zip(self.table.names, record.cells, strict=True)), **added}
        return json.dumps(cells, ensure_ascii=False) + "\n"

    def _row(self, cells: Sequence[str | None]) -> str:
        if self.kind == "tsv":
            return "\t".join(map(one_line, cells)) + "\n"
        row = io.StringIO()
        delimiter = self.table.delimiter if self.table.format == "csv" else ","
        csv.writer(row, delimiter=delimiter, lineterminator="\n").writerow(cells)
        return row.getvalue()


def _written_table(table: Table, file: str | Path, into: Sequence[str], kind: TableOutput) -> Table:
    """The table, with the columns of all records if it is written with columns; none has a name of `into`."""
    taken, line = None, None
    if table.format == kind == "jsonl":
        names = {name: table.line_with(name) for name in into}
        [taken, line] = next((each for each in names.items() if each[1] is not None), (None, None))
    else:
        table, lists = table.of_all_records()
        if lists:
            names = ", ".join(map(repr, lists[:NAMED_KEYS])) + ", ..." * (len(lists) > NAMED_KEYS)
            console.warn(
                f"{file}: lists under {names} are left out, which no cell can have; JSON Lines can:"
                " --output FILE.jsonl"
            )
        if table.named or kind == "jsonl":  # whose keys are numbers if the table has no names
            taken = next((name for name in into if name in table.names), None)
    if taken is not None:
        place = file if line is None else f"{file}:{line}"
        raise DataError(f"{place} has a column {taken!r} already", "give another name: --into NAME")
    return table


def _cell(value: Any) -> str | None:
    """A value as a text; what is no text as JSON writes it."""
    return value if value is None or isinstance(value, str) else json.dumps(value)
