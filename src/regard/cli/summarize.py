"""`regard summarize`."""

from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.text_command import refuse_two
from regard.cli.translation_options import print_answers, translation_command
from regard.verbs.shared.text_options import SummaryOptions


@click.command("summarize", cls=Command)
@translation_command("Summarize", options.own_model, SummaryOptions)
def command(
    text: str | None, input: Path | None, output: Path | None, as_json: bool, **settings: Any
) -> None:
    """Summarize a text, each line of a file or of a pipe.

    The model is an encoder-decoder trained to summarize, such as T5 or BART. TEXT is one document, even if
    it has several lines; each line of a file or of standard input is a document.
    """
    refuse_two(text is not None, input)

    with importing():
        from regard.verbs.summarize import Summarizer

    lines = None if text is None else [" ".join(text.splitlines())]
    waits = "type a text in one line to summarize it"
    print_answers(Summarizer(**settings), lines, input, output, as_json=as_json, waits=waits)
