"""`regard curves`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command


@click.command("curves", cls=Command)
@click.argument("run", type=options.FILE)
def command(run: Path) -> None:
    """Draw loss and scores of a run.

    In the terminal, and as curves.svg and curves.png in the run folder.
    """
    from regard import console
    from regard.verbs.curves import curves

    drawn = curves(run)
    found = drawn.curves
    console.plot(found.loss_label, {"train": found.train_loss, "validation": found.validation_loss}, log=True)
    console.plot(found.score_label, found.scores)
    for figure in drawn.figures:
        click.echo(figure)
