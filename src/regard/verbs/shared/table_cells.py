"""Cells of a table as texts: those of one column, or pairs of a source and a target."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard import console
from regard.counted import counted
from regard.data.column_names import LABEL_NAMES, SOURCE_NAMES, TARGET_NAMES
from regard.data.files import locate
from regard.data.tables import Record, Table, format_of, one_line, open_table
from regard.errors import DataError, UserError
from regard.verbs.proposals.columns import roles_of

PAIRS_IN_ONE_FILE = (
    "pairs in one file are data (--data FILE); columns names two of its columns (--columns SOURCE,TARGET)"
)
NAMED_LINES = 5  # of those without a text


def table_of(file: str | Path) -> Table | None:
    """The table in a file, by its name or its first lines; None if its lines are texts."""
    path = locate(str(file), Path(), once=True)
    kind = format_of(path)
    return None if kind is None or kind == "labelled" else open_table(path, kind)


def named_table(file: str | Path, column: str) -> Table:
    """The table in a file.

    Raises:
        UserError: the file is none, so that it has no such column.
    """
    if (table := table_of(file)) is None:
        raise UserError(f"{file} is no table, so it has no column {column!r}", "leave the column out")
    return table


def table_cells(
    table: Table, places: Sequence[int], *, empty: bool = False, as_written: bool = False
) -> Iterator[tuple[Record, tuple[str, ...]]]:
    """Each record, and its cells in these columns, each on one line; those without any text if `empty`.

    `as_written`: with their line feeds and the spaces around them.

    Records of JSON that lack one have an empty text; a warning names them when all are read, and lines that
    repeat the header, which are no records.
    """
    shown = _as_written if as_written else one_line
    lacking: list[int] = []
    headers: list[int] = []
    count = 0
    for record in table.records(empty=empty):
        if table.is_header(record):
            headers.append(record.line)
            continue
        cells = [record.cells[place] for place in places]
        if None in cells:
            count += 1
            lacking += [record.line] if len(lacking) < NAMED_LINES else []
        yield record, tuple(map(shown, cells))
    if count:
        names = " or ".join(repr(table.names[place]) for place in places)
        lines = _named(lacking, count)
        have = counted(count, "record has", "records have")
        console.warn(
            f"{table.path}: {have} no text under {names}, and is read as an empty text: line {lines}"
        )
    if headers:
        repeat = counted(len(headers), "line repeats", "lines repeat")
        lines = _named(headers[:NAMED_LINES], len(headers))
        console.warn(f"{table.path}: {repeat} the names of the columns, and no record: line {lines}")


def _as_written(cell: str | None) -> str:
    """A cell as it is, without half characters of JSON, which no text can have."""
    return (cell or "").encode("utf-8", "replace").decode("utf-8")


def _named(lines: Sequence[int], count: int) -> str:
    """The first of `count` lines."""
    return ", ".join(map(str, lines)) + (", ..." if count > len(lines) else "")


def pairs_of(
    file: str | Path, columns: Sequence[str] = (), *, as_written: bool = False
) -> tuple[list[str], list[str]]:
    """The sources and the targets of a table of pairs, each on one line, unless they are `as_written`.

    They are in the columns that `columns` names, or else in the only two, or in those that `regard new`
    would detect.

    Raises:
        DataError: the file is no table, the columns cannot be detected, or do not exist.
    """
    table = table_of(file)
    if table is None:
        raise DataError(
            f"{file} is no table of pairs",
            "write a source, a tab and its target on each line, or give src and ref (--src FILE --ref FILE)",
        )
    wanted = columns or _only_two(table) or roles_of(table, "translation", ()).columns
    places = table.columns(wanted)
    if len({*places}) != 2 or len(places) != 2:
        raise DataError(
            f"{file}: {counted(len(places), 'column')} of pairs", "name two: --columns SOURCE,TARGET"
        )
    pairs = [cells for _, cells in table_cells(table, places, as_written=as_written)]
    return [source for source, _ in pairs], [target for _, target in pairs]


def _only_two(table: Table) -> tuple[str, ...]:
    """Source and target of a table with two columns of which none has the name of labels; else none."""
    names = [name.casefold() for name in table.names]
    if len(names) != 2 or not {*LABEL_NAMES}.isdisjoint(names):
        return ()
    return ("1", "0") if names[0] in TARGET_NAMES or names[1] in SOURCE_NAMES else ("0", "1")
