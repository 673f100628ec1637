"""`regard summarize`."""

import sys
from pathlib import Path
from typing import Literal

import click

from regard.cli import options
from regard.cli.group import Command
from regard.errors import UserError
from regard.verbs.controls import Controls


@click.command("summarize", cls=Command)
@click.argument("text", required=False)
@options.own_model
@click.option(
    "--input", type=options.FILE, metavar="FILE", help="Summarize each line of a file (plain or gzipped)."
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
    help="Give that many candidates a text: LINE, SCORE, TEXT between tabs.",
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
    model: Path,
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
    """Say the most important of a text, of each line of a file or of a pipe.

    The model is one with a source and a target that has learned it, such as T5 or BART. TEXT is one text,
    whatever lines it has; of a file or of the standard input each line is one.
    """
    if text is not None and input is not None:
        raise UserError("both TEXT and --input are given", "leave one of them out")

    from regard.verbs.lines import arriving, stream
    from regard.verbs.summarize import Summarizer
    from regard.verbs.translate import printed, write

    summarizer = Summarizer(
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
        summaries = summarizer([" ".join(text.splitlines())])
    elif input is not None:
        summaries = summarizer(stream(input))
    else:
        if sys.stdin.isatty():
            click.echo("type a text in one line to summarize it; Ctrl-D ends", err=True)
        summaries = summarizer.in_chunks(arriving(0))
    if output is not None:
        write(summaries, output, ranked=n_best > 1, as_json=as_json)
        return
    for summary in summaries:
        line = printed(summary, ranked=n_best > 1, as_json=as_json)
        sys.stdout.buffer.write(line.encode("utf-8"))
        sys.stdout.buffer.flush()
