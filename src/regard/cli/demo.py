"""`regard demo`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing


@click.command("demo", cls=Command)
@click.option("--out", type=options.FILE, metavar="DIR", help="Run folder. [default: runs/demo-...]")
@options.device
@options.threads
def command(out: Path | None, device: str, threads: int | None) -> None:
    """Train a small translator of dates, and show what it does.

    Needs no network and no data, since the dates are generated. Takes a minute or two.
    """
    with importing():
        from regard.verbs.demo import demo

    demo(out=out, device=device, threads=threads)
