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
    refuse_half_a_job(sharding, text=False, input=input, output=output)
    if sharding.is_job and (src is not None or ref is not None):
        raise UserError("a job reads pairs from --input", "leave out --src and --ref")
    if not sharding.is_job and input is not None:
        raise UserError("--input is for --shard and --on", "give --src and --ref")
    if not sharding.is_job and (src is None or ref is None):
        raise UserError(f"{'--src' if src is None else '--ref'} is missing", "give both --src and --ref")

    with importing():
        from regard import console
        from regard.verbs.score import score
        from regard.verbs.shards import score_shard

    if src is None or ref is None:
        settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
        run(score_shard, sharding, output, input=input, **settings)
        return
    found = score(model=model, src=src, ref=ref, options=options, runtime=runtime)
    if as_json:
        for record in found.to_dicts():
            click.echo(json.dumps(record))
        return
    for each in found.scores:
        click.echo(f"{each.log_prob:.4f}\t{each.num_tokens}")
    console.note(
        f"{len(found.scores):,} pairs, {found.tokens:,} target tokens, perplexity {found.perplexity:.3f}"
    )
