"""`regard translate`."""

import functools
import sys
from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.translation_options import answer, refuse_two, translating


@click.command("translate", cls=Command)
@translating("Translate", "line", options.model)
@click.option(
    "--split",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    show_default=True,
    help="Translate each sentence of a line alone; auto: of TEXT always, of other lines those that are longer"
    " than the model was trained on.",
)
def command(
    text: str | None, input: Path | None, output: Path | None, n_best: int, as_json: bool, **given: Any
) -> None:
    """Translate a text, a file or what comes through a pipe.

    Without TEXT and --input the standard input is read. There is a line out for each line in, in
    the same order, as soon as it is translated; an empty line gives an empty line.
    """
    refuse_two(text, input)

    with importing():
        from regard.verbs.translate import Translator

    if given["model"] is None:
        _say_demonstration(waits=text is None and input is None)
    lines = None if text is None else text.split("\n")
    waits = "type a line to translate it; Ctrl-D ends"
    answer(
        Translator(n_best=n_best, **given),
        lines,
        input,
        output,
        ranked=n_best > 1,
        as_json=as_json,
        waits=waits,
    )


@functools.cache  # once a process
def _say_demonstration(waits: bool) -> None:
    """Where a person reads: what the model in the box is, and how to get a better one."""
    from regard import console

    if console.notes_to_terminal() and console.is_terminal() and (not waits or sys.stdin.isatty()):
        console.note(
            "This is a small English-German demonstration model; `regard new SOURCE TARGET` begins one of"
            " your own, --model DIR names another."
        )
