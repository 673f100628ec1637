"""What the text commands share as jobs: `--shard` and `--on`, many inputs, and an output folder."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.options import Decorator
from regard.counted import counted
from regard.errors import UserError
from regard.verbs.shared.text_options import ShardOptions

if TYPE_CHECKING:
    from regard.verbs.jobs import ShardReport

Place = Path | str  # of a file here, or an address


class PlaceType(click.ParamType):
    """A path, or an address such as s3://bucket/file."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """A path has no `://`, of which it would keep one slash."""
        return value if "://" in str(value) else Path(value)


PLACE = PlaceType()
EVERYTHING = "--shard 1/1 is everything"

shard_options: Decorator = options.fields_of("sharding", ShardOptions)
job_output: Decorator = click.option(
    "--output", type=PLACE, metavar="DIR", help="With --shard or --on: the folder to write to."
)

table_or_job_output: Decorator = click.option(
    "--output",
    type=PLACE,
    metavar="FILE",
    help="With --column: write the table, with columns for the answers, to this FILE.csv, FILE.tsv or"
    " FILE.jsonl; with --shard or --on: the folder to write to.",
)


def refuse_half_a_job(
    sharding: ShardOptions,
    *,
    text: bool,
    input: Place | None,
    output: Place | None,
    output_is_file: bool = False,
) -> None:
    """Raise a UserError if a part of a job is missing, or needs --shard or --on.

    `text`: the command has one. `output_is_file`: without these --output names a file.
    """
    if not sharding.is_job:
        for name, place in (("--input", input), ("--output", output)):
            if isinstance(place, str):
                raise UserError(f"{name} {place}: an address needs --shard or --on", EVERYTHING)
        if output is not None and not output_is_file:
            raise UserError("--output is for --shard and --on", EVERYTHING)
        if sharding.processes is not None:
            raise UserError("--processes is for a cluster", "give --on ray, too")
        if sharding.part_megabytes is not None:
            raise UserError("--part-megabytes is for --shard and --on", EVERYTHING)
        if sharding.into is not None and not output_is_file:
            raise UserError("--into is for --shard and --on", EVERYTHING)
        if sharding.column is not None and input is None:
            hint = "give a table: --input FILE.csv; what comes through a pipe is read as lines"
            raise UserError("--column names a column of --input", hint)
        return
    option = "--shard" if sharding.shard is not None else "--on"
    if text:
        raise UserError(f"{option} answers files, not a text", "leave the text out, and give --input")
    for name, place, example in (("--input", input, "'in/*.gz'"), ("--output", output, "out")):
        if place is None:
            raise UserError(f"{option} needs {name}", f"for instance {name} {example}")


def path_of(place: Place | None) -> Path | None:
    """A place that is not an address."""
    assert not isinstance(place, str)
    return place


def run(
    answer: "Callable[..., ShardReport]", sharding: ShardOptions, output: Place | None, **settings: Any
) -> None:
    """Run a job by a Python call, with a note after each part, and how much failed at the end."""
    from regard import console
    from regard.verbs.jobs import PartDone

    def done(part: PartDone) -> None:
        rate = part.lines / max(part.seconds, 1e-3)
        console.note(
            f"part {part.part}: {counted(part.lines, 'line')}, {rate:,.0f} a second;"
            f" {part.parts_done:,} of {counted(part.parts, 'part')},"
            f" {part.lines_per_second:,.0f} lines a second in all,"
            f" {_duration(part.seconds_left)} left"
        )

    report = answer(output=output, sharding=sharding, done=done, **settings)
    before = f", {report.done_before} of them before" if report.done_before else ""
    name = f"shard {sharding.shard}" if sharding.shard is not None else f"--on {sharding.on}"
    parts = counted(report.parts, "part is", "parts are")
    console.note(f"{name}: {parts} done{before}; {counted(report.lines, 'line')} now")
    if report.failed:
        console.warn(f"{counted(report.failed, 'line')} failed: `regard jobs status {output}` names them")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
