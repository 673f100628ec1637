"""`regard evaluate`."""

import json
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command


@click.command("evaluate", cls=Command)
@options.model
@options.src
@options.refs
@options.tokenize
@options.lowercase
@options.beam_size
@options.as_json
@options.device
@options.threads
def command(
    model: Path | None,
    src: Path,
    ref: tuple[Path, ...],
    tokenize: str,
    lowercase: bool,
    beam_size: int | None,
    as_json: bool,
    device: str,
    threads: int | None,
) -> None:
    """Translate a test set and score it against references.

    BLEU, chrF++ and TER by sacreBLEU, with signatures and 95 % bootstrap intervals. NAME:FILE is a
    file of a data set (`regard data list`).
    """
    from regard import console
    from regard.verbs.evaluate import evaluate

    found = evaluate(
        model=model,
        src=src,
        ref=ref,
        tokenize="none" if tokenize == "none" else "13a",
        lowercase=lowercase,
        beam_size=beam_size,
        device=device,
        threads=threads,
    )
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        console.scores(f"{found.model}: {found.sentences:,} sentences, beam {found.beam_size}", found.scores)
