"""`regard curves`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command


@click.command("curves", cls=Command)
@click.argument("run", type=options.FILE_PATH)
def command(run: Path) -> None:
    """Draw loss and scores of a run.

    Prints them to the terminal, and writes curves.svg and curves.png to the run folder.
    """
    from regard import console
    from regard.verbs.curves import curves

    result = curves(run)
    found = result.curves
    console.plot(found.loss_label, {"train": found.train_loss, "validation": found.validation_loss}, log=True)
    console.plot(found.score_label, found.scores)
    for figure in result.figures:
        click.echo(figure)
