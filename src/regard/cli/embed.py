"""`regard embed`."""

import sys
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError


@click.command("embed", cls=Command)
@click.argument("text", nargs=-1)
@options.own_model
@click.option(
    "--input", type=options.FILE, metavar="FILE", help="Embed each line of a file (plain or gzipped)."
)
@click.option(
    "--similar-to",
    metavar="TEXT",
    help="Rank the lines by their likeness to TEXT: SIMILARITY, LINE, TEXT between tabs.",
)
@options.batch_tokens
@options.as_json
@options.device
@options.threads
def command(
    text: tuple[str, ...],
    model: Path,
    input: Path | None,
    similar_to: str | None,
    batch_tokens: int,
    as_json: bool,
    device: str,
    threads: int | None,
) -> None:
    """Make a vector of each text, of each line of a file or of a pipe.

    Without TEXT and --input the standard input is read. There is a line out for each line in, the numbers of
    its vector between tabs, in the same order. A sentence encoder makes vectors as its folder says; those of
    another encoder are the mean of its states, of length 1. With --similar-to all lines are read first; the
    likest comes first, and likeness is the cosine of the angle between two vectors.
    """
    if text and input is not None:
        raise UserError("both TEXT and --input are given", "leave one of them out")

    with importing():
        from regard.verbs.embed import Embedder, printed
        from regard.verbs.lines import arriving, stream

    embedder = Embedder(model, batch_tokens=batch_tokens, device=device, threads=threads)
    if text:
        found = embedder(line for each in text for line in each.split("\n"))
    elif input is not None:
        found = embedder(stream(input))
    else:
        if sys.stdin.isatty():
            click.echo("type a line to make a vector of it; Ctrl-D ends", err=True)
        found = embedder.in_chunks(arriving(0))
    for each in found if similar_to is None else embedder.similar(found, similar_to):
        sys.stdout.buffer.write(printed(each, as_json=as_json).encode("utf-8"))
        sys.stdout.buffer.flush()
