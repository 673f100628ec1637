"""`regard fill`."""

import sys
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError


@click.command("fill", cls=Command)
@click.argument("text", required=False)
@options.own_model
@click.option(
    "--input", type=options.FILE, metavar="FILE", help="Fill each line of a file (plain or gzipped)."
)
@click.option(
    "--top",
    type=options.LimitedInt("top"),
    default=5,
    show_default=True,
    metavar="N",
    help="Tell that many guesses of each hidden token.",
)
@options.batch_tokens
@options.allow_fresh_head
@options.as_json
@options.device
@options.threads
def command(
    text: str | None,
    model: Path,
    input: Path | None,
    top: int,
    batch_tokens: int,
    allow_fresh_head: bool,
    as_json: bool,
    device: str,
    threads: int | None,
) -> None:
    """Guess what is hidden in a text, in each line of a file or of a pipe.

    A hidden token is written [MASK] or <mask>, or by the model's own name for it. Without TEXT and --input
    the standard input is read. For each guess there is a line: LINE, MASK (from 1 in each line), TOKEN and
    PROBABILITY between tabs, the likeliest first; an empty line gives none.
    """
    if text is not None and input is not None:
        raise UserError("both TEXT and --input are given", "leave one of them out")

    with importing():
        from regard.verbs.fill import Filler, printed
        from regard.verbs.lines import arriving, stream

    filler = Filler(
        model,
        top=top,
        batch_tokens=batch_tokens,
        allow_fresh_head=allow_fresh_head,
        device=device,
        threads=threads,
    )
    if text is not None:
        found = filler(text.split("\n"))
    elif input is not None:
        found = filler(stream(input))
    else:
        if sys.stdin.isatty():
            click.echo("type a line with [MASK] in it; Ctrl-D ends", err=True)
        found = filler.in_chunks(arriving(0))
    for each in found:
        sys.stdout.buffer.write(printed(each, as_json=as_json).encode("utf-8"))
        sys.stdout.buffer.flush()
