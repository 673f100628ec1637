"""`regard doctor`."""

import click

from regard.cli.group import Command


@click.command("doctor", cls=Command)
def command() -> None:
    """Report what regard finds on this machine.

    Versions, processors, threads, memory, disk, data sets and the included model, with hints
    for what is missing.
    """
    from regard import console
    from regard.verbs.doctor import doctor

    console.table("", ["what", "found", "hint"], [[item.topic, item.found, item.hint] for item in doctor()])
