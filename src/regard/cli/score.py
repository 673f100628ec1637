"""`regard score`."""

import json
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import PLACE, Place, job_output, refuse_half_a_job, run, shard_options
from regard.errors import UserError
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import PrefixOptions, ShardOptions


@click.command("score", cls=Command)
@options.model
@click.option("--src", type=options.FILE_PATH, metavar="FILE", help="Source, one sentence a line.")
@click.option("--ref", type=options.FILE_PATH, metavar="FILE", help="Translations, aligned line by line.")
@click.option(
    "--data",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Pairs in one file (TSV, CSV, JSON Lines), instead of --src and --ref.",
)
@options.columns("With --data: its columns of source and translation, by name or number. [default: detected]")
@click.option(
    "--input",
    type=PLACE,
    metavar="FILE",
    help="With --shard or --on instead of --src and --ref: lines of SOURCE and TRANSLATION with a tab between"
    " (plain or gzipped).",
)
@job_output
@shard_options
@options.fields_of("options", PrefixOptions)
@options.as_json
@options.runtime
def command(
    model: Path | None,
    src: Path | None,
    ref: Path | None,
    data: Path | None,
    columns: tuple[str, ...],
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    options: PrefixOptions,
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Score given translations by their probability.

    A line for each pair: the log-probability in nats and the number of tokens, the end of the sentence
    included in both.
    """
    if sharding.is_job and ((src, ref, data) != (None, None, None) or columns):
        raise UserError("a job reads pairs from --input", "leave out --src, --ref, --data and --columns")
    for name, value in (("--input", input), ("--column", sharding.column)):
        if not sharding.is_job and value is not None:
            hint = "give --src and --ref, or pairs in one file: --data FILE --columns SOURCE,TRANSLATION"
            raise UserError(f"{name} is for --shard and --on", hint)
    refuse_half_a_job(sharding, text=False, input=input, output=output)
    if not sharding.is_job and data is None and (src is None or ref is None):
        hint = "give both --src and --ref, or --data"
        raise UserError(f"{'--src' if src is None else '--ref'} is missing", hint)

    with importing():
        from regard import console
        from regard.verbs.score import score
        from regard.verbs.shards import score_shard

    settings = {"model": model, "options": options, "runtime": runtime}
    if sharding.is_job:
        run(score_shard, sharding, output, input=input, as_json=as_json, **settings)
        return
    found = score(src=src, ref=ref, data=data, columns=columns, **settings)
    if as_json:
        for record in found.to_dicts():
            click.echo(json.dumps(record))
        return
    for each in found.scores:
        click.echo(f"{each.log_prob:.4f}\t{each.num_tokens}")
    console.note(
        f"{len(found.scores):,} pairs, {found.tokens:,} target tokens, perplexity {found.perplexity:.3f}"
    )
