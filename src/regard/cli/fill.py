"""`regard fill`."""

from pathlib import Path

import click

from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import Place, path_of, refuse_half_a_job, run
from regard.cli.options import fields_of
from regard.cli.text_command import check_text, chunks_of, lines_of, text_command, write_output
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import FillingOptions, ShardOptions


@click.command("fill", cls=Command)
@text_command("Fill each line of a file", fields_of("options", FillingOptions))
def command(
    text: str | None,
    model: Path,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    options: FillingOptions,
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Predict the masked tokens of a text, of each line of a file or of a pipe.

    A masked token is written [MASK] or <mask>, or by the model's own name for it. Without TEXT and --input
    standard input is read. Each prediction is a line: LINE, MASK (from 1 in each line), TOKEN and
    PROBABILITY, separated by tabs, the most probable first; an empty line gives none.
    """
    check_text(text, input)
    refuse_half_a_job(sharding, text=text is not None, input=input, output=output)

    with importing():
        from regard.verbs.fill import Filler, output_lines
        from regard.verbs.shards import fill_shard

    if sharding.is_job:
        settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
        run(fill_shard, sharding, output, input=input, **settings)
        return
    filler = Filler(model, options=options, runtime=runtime)
    lines = None if text is None else lines_of(text)
    chunks = chunks_of(lines, path_of(input), "type a line with [MASK] in it", column=sharding.column)
    write_output(output_lines(filled, as_json=as_json) for filled in filler.in_chunks(chunks))
