"""`regard translate`."""

import sys
from pathlib import Path
from typing import Literal

import click

from regard.cli import options
from regard.cli.group import Command
from regard.errors import UserError
from regard.verbs.controls import Controls


@click.command("translate", cls=Command)
@click.argument("text", required=False)
@options.model
@click.option(
    "--input", type=options.FILE, metavar="FILE", help="Translate each line of a file (plain or gzipped)."
)
@click.option(
    "--output", type=options.FILE, metavar="FILE", help="Write there instead of to the standard output."
)
@options.batch_tokens
@click.option(
    "--n-best",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Give that many candidates a line: LINE, SCORE, TEXT between tabs.",
)
@options.prefix
@options.controls
@options.as_json
@options.device
@options.threads
@options.workers
@options.precision
def command(
    text: str | None,
    model: Path | None,
    input: Path | None,
    output: Path | None,
    controls: Controls,
    batch_tokens: int,
    n_best: int,
    prefix: str | None,
    as_json: bool,
    device: str,
    threads: int | None,
    workers: int | None,
    precision: Literal["float32", "int8"],
) -> None:
    """Translate a text, a file or what comes through a pipe.

    Without TEXT and --input the standard input is read. There is a line out for each line in, in
    the same order, as soon as it is translated; an empty line gives an empty line.
    """
    if text is not None and input is not None:
        raise UserError("both TEXT and --input are given", "leave one of them out")

    from regard.verbs.lines import arriving, stream
    from regard.verbs.translate import Translator, printed, write

    translator = Translator(
        model,
        controls=controls,
        batch_tokens=batch_tokens,
        n_best=n_best,
        prefix=prefix,
        device=device,
        threads=threads,
        workers=workers,
        precision=precision,
    )
    if text is not None:
        translations = translator(text.split("\n"))
    elif input is not None:
        translations = translator(stream(input))
    else:
        if sys.stdin.isatty():
            click.echo("type a line to translate it; Ctrl-D ends", err=True)
        translations = translator.in_chunks(arriving(0))
    if output is not None:
        write(translations, output, ranked=n_best > 1, as_json=as_json)
        return
    for translation in translations:
        line = printed(translation, ranked=n_best > 1, as_json=as_json)
        sys.stdout.buffer.write(line.encode("utf-8"))
        sys.stdout.buffer.flush()
