"""`regard average`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing


@click.command(
    "average",
    cls=Command,
    if_more="it averages the checkpoints of one run; `regard curves RUN RUN` compares several",
)
@click.argument("run", type=options.FILE_PATH)
@click.option(
    "--last",
    type=options.LimitedInt("last"),
    required=True,
    metavar="K",
    help="Number of checkpoints, counted from the newest.",
)
@click.option("--out", type=options.FILE_PATH, required=True, metavar="DIR", help="Model folder to write.")
def command(run: Path, last: int, out: Path) -> None:
    """Average the last checkpoints of a run into one model."""
    with importing():
        from regard.verbs.average import average

    click.echo(average(run, last=last, out=out))
