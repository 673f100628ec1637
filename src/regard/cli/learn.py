"""`regard learn`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command

JUPYTERS = ("jupyterlab", "notebook")  # modules; the first that is installed is opened


@click.command("learn", cls=Command)
@click.option(
    "--out", type=options.FILE_PATH, metavar="DIR", help="Folder of the notebooks. [default: learn-regard]"
)
@click.option("--no-jupyter", is_flag=True, help="Write the notebooks, and do not open Jupyter.")
def command(out: Path | None, no_jupyter: bool) -> None:
    """Write the tutorial as notebooks, and open Jupyter.

    Fourteen pages, from attention on three tokens to models of your own. Notebooks that exist are kept.
    Jupyter is opened from a terminal if jupyterlab or notebook is installed beside regard.
    """
    from regard import console
    from regard.verbs.learn import learn

    found = learn(out=out)
    kept = f", {len(found.kept)} kept" if found.kept else ""
    console.say(f"{len(found.written)} notebooks written{kept}: {found.folder}")
    module = next((name for name in JUPYTERS if importlib.util.find_spec(name)), None)
    if module is None:
        console.note("Jupyter is not installed here: pip install jupyterlab")
    elif not no_jupyter and sys.stdout.isatty():
        raise SystemExit(subprocess.call([sys.executable, "-m", module, str(found.folder)]))  # noqa: S603
