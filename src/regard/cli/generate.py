"""`regard generate`."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import Place, job_output, path_of, refuse_half_a_job, run, shard_options
from regard.cli.text_command import check_text, chunks_of, input_option, text_argument, write_output
from regard.errors import UserError
from regard.verbs.generation.controls import Controls
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.shared.text_options import ChatOptions, ShardOptions

if TYPE_CHECKING:
    from regard.verbs.generate import Generator


@click.command("generate", cls=Command)
@text_argument("prompt")
@options.own_model
@input_option("Continue each line of a file")
@job_output
@shard_options
@click.option(
    "--num",
    type=options.LimitedInt("num"),
    default=1,
    show_default=True,
    metavar="N",
    help="Texts for each prompt, with a line of --- between two.",
)
@options.controls
@click.option("--stream", "streamed", is_flag=True, help="Show the text as it is generated.")
@options.as_json
@options.fields_of("options", ChatOptions)
@options.fields_of("runtime", DecodingRuntime)
def command(
    prompt: str | None,
    model: Path,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    controls: Controls,
    num: int,
    streamed: bool,
    as_json: bool,
    options: ChatOptions,
    runtime: DecodingRuntime,
) -> None:
    """Continue a text, each line of a file or of a pipe.

    Without PROMPT (or with - for it) and --input standard input is read, each line a prompt. The text is
    printed after its prompt; with several prompts a line of --- stands between the texts. The same seed gives
    the same text. An empty line is continued from the beginning of a text; it stays empty if the model knows
    no beginning.

    With --chat the prompt is a message to a chat model, and only its answer is printed. Each line of a file
    or of a pipe is a conversation of its own; lines typed at a terminal are one conversation.
    """
    check_text(prompt, input, name="PROMPT")
    refuse_half_a_job(sharding, text=prompt is not None, input=input, output=output)
    if streamed and as_json:
        raise UserError("--json prints whole texts only", "leave out --stream or --json")

    with importing():
        from regard.verbs.generate import Generator
        from regard.verbs.generation.continuations import BETWEEN, output_lines
        from regard.verbs.shards import generate_shard

    if sharding.is_job:
        settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
        run(generate_shard, sharding, output, input=input, **settings, controls=controls, num=num)
        return
    generator = Generator(model, controls=controls, num=num, options=options, runtime=runtime)
    typed = prompt is None and input is None and sys.stdin.isatty()
    if options.chat and typed and num == 1 and not as_json:
        _converse(generator)
        return
    prompts = chunks_of(
        None if prompt is None else [prompt],
        path_of(input),
        "type a line to continue it",
        column=sharding.column,
    )
    if streamed:
        write_output(_streamed(generator, prompts, BETWEEN, single=prompt is not None))
        return
    found = generator.in_chunks(prompts) if prompt is None else [generator.one(prompt)]
    texts = (output_lines(each, as_json=as_json) for each in found)
    write_output(text if number == 0 or as_json else BETWEEN + text for number, text in enumerate(texts))


def _streamed(
    generator: "Generator", prompts: Iterable[Sequence[str]], between: str, *, single: bool
) -> Iterator[str]:
    """The pieces of all texts as they are generated. An empty prompt is an error only if it is `single`."""
    texts = (line for lines in prompts for line in lines)
    for number, text in enumerate(texts, start=1):
        chat = generator.prompts.chat
        pieces = generator.stream(text, line=number) if single or chat or generator.begins(text) else ()
        shown = "" if chat else text
        yield shown if number == 1 else between + shown
        yield from pieces
        yield "\n"


def _converse(generator: "Generator") -> None:
    """Answer what is typed at a terminal; each answer is part of the conversation that the next one reads."""
    click.echo("type a message; Ctrl-D ends", err=True)
    messages: list[dict[str, str]] = []
    for line in sys.stdin:
        messages.append({"role": "user", "content": line.rstrip("\n")})
        answer = []
        for piece in generator.stream(messages):
            answer.append(piece)
            write_output([piece])
        write_output(["\n"])
        messages.append({"role": "assistant", "content": "".join(answer)})
