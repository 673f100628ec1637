"""What `translate` and `summarize` have in common: their options, and where the answers go."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.verbs.translate import Translation, Translator


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
            type=options.LimitedInt("n_best"),
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
    from regard import console
    from regard.verbs.lines import arriving, count_of, stream

    if lines is not None:
        _give(translator.texts(lines), output, ranked=ranked, as_json=as_json)
    elif input is not None:
        seen = console.notes_to_terminal() and not (output is None and console.is_terminal())
        total = count_of(input) if seen else 0
        with console.LinesProgress(total) if total else nullcontext() as progress:
            done = progress.advance if progress else None
            _give(translator(stream(input), done=done), output, ranked=ranked, as_json=as_json)
    else:
        if sys.stdin.isatty():
            click.echo(waits, err=True)
        _give(translator.in_chunks(arriving(0)), output, ranked=ranked, as_json=as_json)


def _give(answers: "Iterable[Translation]", output: Path | None, *, ranked: bool, as_json: bool) -> None:
    """Into a file, or to the standard output as they come."""
    from regard.verbs.translate import printed, write

    if output is not None:
        write(answers, output, ranked=ranked, as_json=as_json)
        return
    for each in answers:
        sys.stdout.buffer.write(printed(each, ranked=ranked, as_json=as_json).encode("utf-8"))
        sys.stdout.buffer.flush()
