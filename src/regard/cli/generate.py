"""`regard generate`."""

import sys
from pathlib import Path
from typing import Literal

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError
from regard.verbs.controls import Controls


@click.command("generate", cls=Command)
@click.argument("prompt", required=False)
@options.own_model
@click.option(
    "--input", type=options.FILE, metavar="FILE", help="Go on with each line of a file (plain or gzipped)."
)
@click.option(
    "--num",
    type=options.LimitedInt("num"),
    default=1,
    show_default=True,
    metavar="N",
    help="Texts for each prompt, a line of --- between two.",
)
@options.controls
@click.option("--stream", "streamed", is_flag=True, help="Show the text as it comes.")
@options.as_json
@options.device
@options.threads
@options.precision
def command(
    prompt: str | None,
    model: Path,
    input: Path | None,
    controls: Controls,
    num: int,
    streamed: bool,
    as_json: bool,
    device: str,
    threads: int | None,
    precision: Literal["float32", "int8"],
) -> None:
    """Go on with a text, with each line of a file or of a pipe.

    Without PROMPT (or with - for it) and --input the standard input is read, each line a prompt. The text is
    printed with its prompt; of several prompts a line of --- stands between the texts. The same seed gives
    the same text. An empty line goes on from the beginning of a text; it stays empty where the model has
    never seen one.
    """
    if prompt is not None and input is not None:
        raise UserError("both PROMPT and --input are given", "leave one of them out")
    if streamed and as_json:
        raise UserError("--json prints a text when it is whole", "leave out --stream or --json")

    with importing():
        from regard.verbs.computing import Computing
        from regard.verbs.generate import BETWEEN, Generator, printed
        from regard.verbs.lines import arriving, chunks, stream

    computing = Computing(device=device, threads=threads, precision=precision)
    generator = Generator(model, controls=controls, num=num, computing=computing)
    if prompt == "-":
        prompt = None
    if prompt is not None:
        prompts = iter([[prompt]])
    elif input is not None:
        prompts = chunks(stream(input))
    else:
        if sys.stdin.isatty():
            click.echo("type a line to go on with it; Ctrl-D ends", err=True)
        prompts = arriving(0)
    if streamed:
        texts = (line for lines in prompts for line in lines)
        for number, text in enumerate(texts, start=1):
            nothing = prompt is None and not generator.begins(text)
            pieces = () if nothing else generator.stream(text, line=number)
            _write(text if number == 1 else BETWEEN + text)
            for piece in pieces:
                _write(piece)
            _write("\n")
        return
    found = generator.in_chunks(prompts) if prompt is None else [generator.one(prompt)]
    for number, generated in enumerate(found):
        shown = printed(generated, as_json=as_json)
        _write(shown if number == 0 or as_json else BETWEEN + shown)


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8"))
    sys.stdout.buffer.flush()
