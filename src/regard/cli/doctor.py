"""`regard doctor`."""

from pathlib import Path

import click

from regard.cli.group import Command
from regard.cli.options import FILE_PATH


@click.command("doctor", cls=Command)
@click.option(
    "--model",
    type=FILE_PATH,
    metavar="DIR",
    help="Also report whether this model runs in its fast or its plain form on a CPU, and why.",
)
def command(model: Path | None) -> None:
    """Report what regard finds on this machine.

    Versions, processors, threads, memory, disk, data sets and the included model, with hints
    for what is missing. With --model also whether that model decodes and trains in its
    fast or its plain form.
    """
    from regard import console
    from regard.verbs.doctor import doctor

    console.table(
        "", ["what", "found", "hint"], [[item.topic, item.found, item.hint] for item in doctor(model)]
    )
