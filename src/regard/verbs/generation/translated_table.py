"""A table as it was, with one more column: the translation of another."""

import csv
import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard import console
from regard.data.tables import SAMPLED_RECORDS, Record, Table, one_line
from regard.errors import DataError
from regard.verbs.generation.translations import Translation
from regard.verbs.shared.file_formats import TableOutput
from regard.verbs.shared.table_cells import named_table, table_cells

NAMED_KEYS = 10  # of those that are left out


@dataclass(frozen=True, kw_only=True)
class TranslatedTable:
    """A table of which a column is translated into a new one, `into`, as CSV or TSV.

    A CSV file keeps its delimiter. What is read and not yet written is kept in memory.
    """

    table: Table
    place: int
    into: str
    kind: TableOutput
    _waiting: deque[Record] = field(default_factory=deque)

    @classmethod
    def of(cls, file: str | Path, column: str, into: str, kind: TableOutput) -> "TranslatedTable":
        """Open the table in a file; a warning names the keys of JSON that become no column.

        Raises:
            DataError: it has no such column, or has the new one, or is not JSON. UserError: it is no table.
        """
        table = named_table(file, column)
        [place] = table.columns([column])
        if table.named and into in table.names:
            raise DataError(f"{file} has a column {into!r} already", "give another name: --into NAME")
        if left_out := table.left_out():
            names = ", ".join(map(repr, left_out[:NAMED_KEYS])) + ", ..." * (len(left_out) > NAMED_KEYS)
            console.warn(
                f"{file}: values under {names} are left out: columns have texts, numbers and booleans of keys"
                f" that one of the first {SAMPLED_RECORDS:,} records has"
            )
        return cls(table=table, place=place, into=into, kind=kind)

    def texts(self) -> Iterator[str]:
        """The texts of the column."""
        for record, [text] in table_cells(self.table, [self.place]):
            self._waiting.append(record)
            yield text

    def rows(self, answers: Iterable[Translation]) -> Iterator[str]:
        """The lines of the new table, from the answers to the texts, in order."""
        if self.table.named:
            yield self._row([*self.table.names, self.into])
        for answer in answers:
            yield self._row([*self._waiting.popleft().cells, answer.text])

    def _row(self, cells: Sequence[str | None]) -> str:
        if self.kind == "tsv":
            return "\t".join(map(one_line, cells)) + "\n"
        row = io.StringIO()
        delimiter = self.table.delimiter if self.table.format == "csv" else ","
        csv.writer(row, delimiter=delimiter, lineterminator="\n").writerow(cells)
        return row.getvalue()
