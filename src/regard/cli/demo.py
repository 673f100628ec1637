"""`regard demo`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.verbs.shared.runtime import Runtime


@click.command("demo", cls=Command)
@click.option("--out", type=options.FILE_PATH, metavar="DIR", help="Run folder. [default: runs/demo-...]")
@options.runtime
def command(out: Path | None, runtime: Runtime) -> None:
    """Train a small translator of dates, and show what it does.

    Needs no network and no data, since the dates are generated. Takes a minute or two.
    """
    with importing():
        from regard.verbs.demo import demo

    demo(out=out, runtime=runtime)
