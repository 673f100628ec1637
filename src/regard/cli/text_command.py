"""The frame of the text commands: a text, a file or a pipe in; an answer for each line out."""

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.job_options import PLACE, job_output, shard_options
from regard.cli.options import Decorator
from regard.errors import Interrupted, UserError

STANDARD_INPUT = f"{__name__}.dash"  # in the context: a text or --input is `-`


def text_command(
    does: str,
    *decorators: Decorator,
    several: bool = False,
    output: Decorator = job_output,
) -> Decorator:
    """The argument TEXT, or `several`, --model, --input, those of a job, and then these options.

    `does`: the help of --input. `output`: the option --output.
    """
    return options.stacked(
        text_argument(several=several),
        options.own_model,
        input_option(does),
        output,
        shard_options,
        *decorators,
        options.as_json,
        options.runtime,
    )


def input_option(does: str) -> Decorator:
    """The option --input of a command that does this with each line."""
    return click.option(
        "--input", type=PLACE, metavar="FILE", callback=_without_dash, help=f"{does} (plain or gzipped)."
    )


def text_argument(name: str = "text", *, several: bool = False) -> Decorator:
    """The argument TEXT, or `several`; `-` is standard input, as without it."""
    return click.argument(name, nargs=-1 if several else 1, required=False, callback=_without_dash)


def _without_dash(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """The value, or what is read without one, if it is `-`."""
    if value in (("-",), "-") or str(value) == "-":
        context.meta[STANDARD_INPUT] = True
        return () if isinstance(value, tuple) else None
    return value


def refuse_two(text: object, input: Path | str | None, name: str = "TEXT") -> None:
    """Raise a UserError if there are both a text and a file, or one of them and a dash."""
    context = click.get_current_context(silent=True)
    has_dash = context is not None and STANDARD_INPUT in context.meta
    if (text and input is not None) or (has_dash and (text or input is not None)):
        raise UserError(f"both {name} and --input are given", "leave one of them out")


def check_text(
    text: str | Sequence[str] | None,
    input: Path | str | None = None,
    *,
    name: str = "TEXT",
    reads: bool = True,
) -> None:
    """Refuse a text beside a file; note a text that is the name of a model, or of a file if any is read."""
    texts = [text] if isinstance(text, str) else text or ()
    refuse_two(texts, input, name)
    for each in texts:
        option, means = _option_for(each)
        if option == "--model" or (reads and option == "--input"):
            from regard import console

            console.note(f"{each!r} is taken as a text; {option} {each} {means}")


def _option_for(text: str) -> tuple[str | None, str]:
    """The option that a text may be meant for, since something has its name, and what that would do."""
    from regard.verbs.shared.included_models import included_models

    if os.path.isfile(text):
        return "--input", "reads the lines of this file"
    of_models = ("config.json", "recipe.toml")
    if text in included_models() or any(os.path.isfile(os.path.join(text, name)) for name in of_models):
        return "--model", "uses this model"
    return None, ""


def lines_of(text: str) -> list[str]:
    """The lines of a text; a line end after the last begins no other."""
    return text.removesuffix("\n").split("\n")


def chunks_of(
    lines: Sequence[str] | None,
    input: Path | None,
    waits: str,
    *,
    column: str | None = None,
    as_written: bool = False,
) -> Iterator[Sequence[str]]:
    """The lines that are given, or those of the file, or of standard input, in chunks.

    `waits`: what is printed to a user at a terminal who has given neither. `column`: of a file that is a
    table, its texts are read, on one line or `as_written`.
    """
    from regard.verbs.shared.lines import arriving, chunks, texts_of

    if lines is not None:
        return chunks(lines)
    if input is not None:
        return chunks(texts_of(input, column, as_written=as_written))
    if sys.stdin.isatty():
        click.echo(f"{waits}; Ctrl-D ends", err=True)
    return arriving(0)


def write_output(texts: Iterable[str]) -> None:
    """Write texts to standard output, each at once."""
    for text in texts:
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.buffer.flush()


def write_to(output: Path | None, texts: Iterable[str]) -> None:
    """Write to a file, which appears when it is complete, or to standard output one by one.

    Raises Interrupted at Ctrl-C if there is a file: it is then not written.
    """
    if output is None:
        write_output(texts)
        return
    from regard.verbs.generation.translations import write_texts

    try:
        write_texts(texts, output)
    except KeyboardInterrupt:
        hint = "the same command starts at the first line; --shard 1/1 keeps each part that is done"
        raise Interrupted(signal.SIGINT, f"interrupted; {output} was not written", hint) from None
