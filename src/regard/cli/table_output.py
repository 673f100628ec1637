"""What `classify`, `tag`, `embed` and `score` share: they write a table with columns for the answers."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from regard.cli.job_options import Place, path_of
from regard.cli.text_command import write_to
from regard.errors import UserError
from regard.verbs.shared.file_formats import TableOutput, table_output, without_lines
from regard.verbs.shared.text_options import ShardOptions

Answer = TypeVar("Answer")


def table_of_output(
    sharding: ShardOptions, output: Place | None, *, as_json: bool, top: int | None = None
) -> TableOutput | None:
    """The kind of table that is written without a job; None: lines, to standard output.

    `top` is the value of --top; None if the command has no such option.

    Raises:
        UserError: --output or --into is given, and no table is written.
    """
    if sharding.is_job:
        return None
    option = "" if top is None else "--top"
    table = table_output(output, sharding.column, as_json=as_json, n_best=top or 1, option=option)
    for name, value in (("--output", output), ("--into", sharding.into)):
        if value is not None and (table is None or output is None):
            hint = f"give --input TABLE --column NAME --output FILE.csv, {without_lines(option)}"
            raise UserError(f"{name} is for --shard and --on, and for a table that is written", hint)
    return table


def write_table(
    answer: Callable[[Iterable[str]], Iterable[Answer]],
    cells: Callable[[Answer], Sequence[Any]],
    names: Sequence[str],
    places: tuple[Place | None, Place | None],
    column: str,
    table: TableOutput,
    *,
    as_written: bool = False,
) -> None:
    """Write the table in a file with the answers to a column's texts; `places` are input and output.

    `cells`: what the new columns, `names`, have for an answer. `as_written`: texts keep their line feeds.
    """
    from regard.verbs.generation.translations import check_output
    from regard.verbs.shared.answered_table import AnsweredTable

    input, output = map(path_of, places)
    check_output(input, output)
    assert isinstance(input, Path)
    into, *more = names
    answered = AnsweredTable.of(input, column, into, table, more)
    write_to(output, answered.rows(map(cells, answer(answered.texts(as_written=as_written)))))
