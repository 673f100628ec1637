"""Cells of a table as texts: those of one column, or pairs of a source and a target."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard import console
from regard.counted import counted
from regard.data.column_names import (
    ANSWER_NAMES,
    LABEL_NAMES,
    QUESTION_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
)
from regard.data.files import locate
from regard.data.tables import Record, Table, format_of, one_line, open_table
from regard.errors import DataError, UserError
from regard.verbs.proposals.columns import roles_of

PAIRS_IN_ONE_FILE = (
    "pairs in one file are data (--data FILE); columns names two of its columns (--columns SOURCE,TARGET)"
)
FIRST_NAMES, SECOND_NAMES = {*SOURCE_NAMES, *QUESTION_NAMES}, {*TARGET_NAMES, *ANSWER_NAMES}
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
    file: str | Path, columns: Sequence[str] = (), *, completions: bool = False
) -> tuple[list[str], list[str]]:
    """The sources and the targets of a table of pairs, each on one line.

    With `completions` they are prompts and their completions, as they are written.

    They are in the columns that `columns` names, or else in the only two, or in those that `regard new`
    would detect; those of prompts and completions have usual names.

    Raises:
        DataError: the file is no table, the columns cannot be detected, or do not exist.
    """
    table = opened_pairs(file, completions=completions)
    places = places_of_pairs(table, columns, completions=completions)
    pairs = [cells for _, cells in table_cells(table, places, as_written=completions)]
    return [source for source, _ in pairs], [target for _, target in pairs]


def opened_pairs(file: str | Path, *, completions: bool = False) -> Table:
    """The table in a file of pairs, or of prompts and `completions`.

    Raises:
        DataError: the file is none.
    """
    if (table := table_of(file)) is None:
        hint = (
            "write a source, a tab and its target on each line, or give src and ref (--src FILE --ref FILE)"
        )
        if completions:
            hint = (
                "write a prompt, a tab and its completion on each line; input (--input FILE) has whole texts"
            )
        raise DataError(f"{file} is no table of pairs", hint)
    return table


def places_of_pairs(table: Table, columns: Sequence[str], *, completions: bool = False) -> tuple[int, int]:
    """The columns of sources and targets, or of prompts and completions: named, or else detected.

    Raises:
        DataError: the columns cannot be detected, or do not exist.
    """
    found = columns or _only_two(table)
    if not found:
        found = _named_completions(table) if completions else roles_of(table, "translation", ()).columns
    places = table.columns(found)
    if len({*places}) != 2 or len(places) != 2:
        hint = f"name two: --columns {'PROMPT,COMPLETION' if completions else 'SOURCE,TARGET'}"
        raise DataError(f"{table.path}: {counted(len(places), 'column')} of pairs", hint)
    first, second = places
    return first, second


def _named_completions(table: Table) -> tuple[str, str]:
    """The only column with a usual name of prompts, and that of completions."""
    numbered = [(str(place), name.casefold()) for place, name in enumerate(table.names)]
    firsts = [place for place, name in numbered if name in FIRST_NAMES]
    seconds = [place for place, name in numbered if name in SECOND_NAMES]
    if len(firsts) == len(seconds) == 1:
        return firsts[0], seconds[0]
    raise DataError(
        f"{table.path}: cannot detect the columns of prompts and completions: {', '.join(table.names)}",
        "name them: --columns PROMPT,COMPLETION",
    )


def _only_two(table: Table) -> tuple[str, ...]:
    """First and second texts of a table with two columns of which none has the name of labels; else none."""
    names = [name.casefold() for name in table.names]
    if len(names) != 2 or not {*LABEL_NAMES}.isdisjoint(names):
        return ()
    in_order = names[0] in FIRST_NAMES or names[1] in SECOND_NAMES
    turned = names[0] in SECOND_NAMES or names[1] in FIRST_NAMES
    return ("1", "0") if turned and not in_order else ("0", "1")
