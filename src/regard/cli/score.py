"""`regard score`."""

import json
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing


@click.command("score", cls=Command)
@options.model
@options.src
@click.option(
    "--ref", type=options.FILE, required=True, metavar="FILE", help="Translations, aligned line by line."
)
@options.prefix
@options.as_json
@options.device
@options.threads
def command(
    model: Path | None,
    src: Path,
    ref: Path,
    prefix: str | None,
    as_json: bool,
    device: str,
    threads: int | None,
) -> None:
    """Say how likely a model finds given translations.

    A line for each pair: the log-probability in nats and the number of tokens, the end of the
    sentence included in both.
    """
    with importing():
        from regard import console
        from regard.verbs.score import score

    found = score(model=model, src=src, ref=ref, prefix=prefix, device=device, threads=threads)
    if as_json:
        for record in found.to_dicts():
            click.echo(json.dumps(record))
        return
    for each in found.scores:
        click.echo(f"{each.log_prob:.4f}\t{each.num_tokens}")
    console.note(
        f"{len(found.scores):,} pairs, {found.tokens:,} target tokens, perplexity {found.perplexity:.3f}"
    )
