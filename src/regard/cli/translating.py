"""What `translate` and `summarize` have in common: their options, and where the answers go."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.verbs.translate import Translator


def translating(does: str, each: str, model: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The options of a command that `does` something with each line, or with `each`, by a `model`."""
    decorators = [
        click.argument("text", required=False),
        model,
        click.option(
            "--input",
            type=options.FILE,
            metavar="FILE",
            help=f"{does} each line of a file (plain or gzipped).",
        ),
        click.option(
            "--output",
            type=options.FILE,
            metavar="FILE",
            help="Write there instead of to the standard output.",
        ),
        options.batch_tokens,
        click.option(
            "--n-best",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            metavar="N",
            help=f"Give that many candidates a {each}: LINE, SCORE, TEXT between tabs.",
        ),
        options.prefix,
        options.controls,
        options.as_json,
        options.device,
        options.threads,
        options.workers,
        options.precision,
    ]

    def decorated(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorated


def refuse_two(text: str | None, input: Path | None) -> None:
    if text is not None and input is not None:
        raise UserError("both TEXT and --input are given", "leave one of them out")


def answer(
    translator: "Translator",
    lines: Sequence[str] | None,
    input: Path | None,
    output: Path | None,
    *,
    ranked: bool,
    as_json: bool,
    waits: str,
) -> None:
    """What it says of the lines, of a file, or of what comes in, which a terminal is told it `waits` for."""
    from regard.verbs.lines import arriving, stream
    from regard.verbs.translate import printed, write

    if lines is not None:
        answers = translator.texts(lines)
    elif input is not None:
        answers = translator(stream(input))
    else:
        if sys.stdin.isatty():
            click.echo(waits, err=True)
        answers = translator.in_chunks(arriving(0))
    if output is not None:
        write(answers, output, ranked=ranked, as_json=as_json)
        return
    for each in answers:
        sys.stdout.buffer.write(printed(each, ranked=ranked, as_json=as_json).encode("utf-8"))
        sys.stdout.buffer.flush()
