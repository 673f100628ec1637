"""`regard score`."""

import json
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import PrefixOptions


@click.command("score", cls=Command)
@options.model
@options.src
@click.option(
    "--ref", type=options.FILE_PATH, required=True, metavar="FILE", help="Translations, aligned line by line."
)
@options.fields_of("options", PrefixOptions)
@options.as_json
@options.runtime
def command(
    model: Path | None, src: Path, ref: Path, options: PrefixOptions, as_json: bool, runtime: Runtime
) -> None:
    """Score given translations by their probability.

    A line for each pair: the log-probability in nats and the number of tokens, the end of the sentence
    included in both.
    """
    with importing():
        from regard import console
        from regard.verbs.score import score

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
