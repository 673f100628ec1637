"""`regard summarize`."""

from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.translation_options import answer, refuse_two, translating


@click.command("summarize", cls=Command)
@translating("Summarize", "text", options.own_model)
def command(
    text: str | None, input: Path | None, output: Path | None, n_best: int, as_json: bool, **given: Any
) -> None:
    """Say the most important of a text, of each line of a file or of a pipe.

    The model is one with a source and a target that has learned it, such as T5 or BART. TEXT is one text,
    whatever lines it has; of a file or of the standard input each line is one.
    """
    refuse_two(text, input)

    with importing():
        from regard.verbs.summarize import Summarizer

    lines = None if text is None else [" ".join(text.splitlines())]
    waits = "type a text in one line to summarize it; Ctrl-D ends"
    answer(
        Summarizer(n_best=n_best, **given),
        lines,
        input,
        output,
        ranked=n_best > 1,
        as_json=as_json,
        waits=waits,
    )
