"""`regard generate`."""

import sys
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.errors import UserError


@click.command("generate", cls=Command)
@click.argument("prompt", required=False)
@options.own_model
@click.option(
    "--input", type=options.FILE, metavar="FILE", help="Go on with each line of a file (plain or gzipped)."
)
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens after the prompt. [default: the model's own, or as many as it has positions for]",
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    metavar="T",
    help="Below 1 the likely is likelier; 0 takes the likeliest. [default: the model's own]",
)
@click.option(
    "--top-k", type=click.IntRange(min=0), metavar="K", help="Draw from the K likeliest tokens; 0 from all."
)
@click.option(
    "--top-p",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="P",
    help="Draw from the likeliest that hold the probability P.",
)
@click.option(
    "--beam-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Search for the likeliest text with that many hypotheses, and draw nothing.",
)
@click.option(
    "--no-repeat-ngram-size",
    type=click.IntRange(min=0),
    metavar="N",
    help="Say no N tokens in the same order twice; 0 allows it. [default: the model's own]",
)
@click.option("--seed", type=int, metavar="S", help="Another one draws another text. [default: 0]")
@click.option(
    "--num",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Texts for each prompt, a line of --- between two.",
)
@click.option("--stream", "streamed", is_flag=True, help="Show the text as it comes.")
@options.as_json
@options.device
@options.threads
def command(
    prompt: str | None,
    model: Path,
    input: Path | None,
    max_new_tokens: int | None,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    beam_size: int | None,
    no_repeat_ngram_size: int | None,
    seed: int | None,
    num: int,
    streamed: bool,
    as_json: bool,
    device: str,
    threads: int | None,
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

    from regard.verbs.generate import BETWEEN, Generator, printed
    from regard.verbs.lines import arriving, chunks, stream

    generator = Generator(
        model,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        beam_size=beam_size,
        no_repeat_ngram_size=no_repeat_ngram_size,
        seed=seed,
        num=num,
        device=device,
        threads=threads,
    )
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
