"""`regard summarize`."""

from typing import Any

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import Place, refuse_half_a_job, run
from regard.cli.text_command import check_text
from regard.cli.translation_options import print_answers, table_of_output, translation_command
from regard.verbs.shared.text_options import ShardOptions, SummaryOptions


@click.command("summarize", cls=Command)
@translation_command("Summarize", options.own_model, SummaryOptions)
def command(
    text: str | None,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    as_json: bool,
    **settings: Any,
) -> None:
    """Summarize a text, each line of a file or of a pipe.

    The model is an encoder-decoder trained to summarize, such as T5 or BART. TEXT is one document, even if
    it has several lines; each line of a file or of standard input is a document.
    """
    check_text(text, input)
    refuse_half_a_job(sharding, text=text is not None, input=input, output=output, output_is_file=True)
    table = table_of_output(sharding, output, as_json=as_json, n_best=settings["options"].n_best)

    with importing():
        from regard.verbs.shards import summarize_shard
        from regard.verbs.summarize import Summarizer

    if sharding.is_job:
        run(summarize_shard, sharding, output, input=input, as_json=as_json, **settings)
        return
    print_answers(
        Summarizer,
        settings,
        None if text is None else [" ".join(text.splitlines())],
        input,
        output,
        sharding,
        as_json=as_json,
        waits="type a text in one line to summarize it",
        table=table,
    )
