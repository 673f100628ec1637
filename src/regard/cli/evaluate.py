"""`regard evaluate`."""

import json
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError
from regard.verbs.controls import BeamSize
from regard.verbs.runtime import DecodingRuntime
from regard.verbs.text_options import WorkerOptions
from regard.verbs.tokenize import Tokenize


@click.command("evaluate", cls=Command)
@options.model
@click.option(
    "--data",
    type=options.FILE,
    metavar="FILE",
    help="Test data to be read as those of the model's recipe are, in their place.",
)
@click.option("--src", type=options.FILE, metavar="FILE", help="Translate these lines, one sentence a line.")
@click.option(
    "--ref",
    type=options.FILE,
    multiple=True,
    metavar="FILE",
    help="Reference, aligned line by line; again for each further one.",
)
@options.tokenize
@options.lowercase
@click.option("--by-length", is_flag=True, help="BLEU by the length of the source, too.")
@options.fields_of("beam", BeamSize)
@options.as_json
@options.fields_of("options", WorkerOptions)
@options.fields_of("runtime", DecodingRuntime)
def command(
    model: Path | None,
    data: Path | None,
    src: Path | None,
    ref: tuple[Path, ...],
    tokenize: Tokenize,
    lowercase: bool,
    by_length: bool,
    beam: BeamSize,
    as_json: bool,
    options: WorkerOptions,
    runtime: DecodingRuntime,
) -> None:
    """Score a model on test data: classes, labels, running text, translations.

    Without --data and --src those of the recipe that the model was trained by are taken. Scores have
    signatures and 95 % intervals; of classes there is a table of which are taken for which.

    --src and --ref translate a file and score it by sacreBLEU: BLEU, chrF++ and TER; chrF++ comes first
    where the references have no spaces between words. NAME:FILE is a file of a data set (`regard data
    list`).
    """
    if (src is None) != (not ref):
        missing = "--src FILE" if src is None else "--ref FILE"
        raise UserError(f"{missing} is missing", "translations need a source and at least one reference")
    if src is not None and data is not None:
        raise UserError("both --data and --src are given", "leave one of them out")

    with importing():
        from regard import console
        from regard.verbs.evaluate import TranslationEvaluation, evaluate

    found = evaluate(
        model=model,
        data=data,
        src=src,
        ref=ref,
        tokenize=tokenize,
        lowercase=lowercase,
        by_length=by_length,
        beam=beam,
        options=options,
        runtime=runtime,
    )
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
        return
    shown_beam = f", beam {found.beam_size}" if isinstance(found, TranslationEvaluation) else ""
    console.scores(f"{found.model}: {found.examples}{shown_beam}", found.scores)
    if isinstance(found, TranslationEvaluation) and found.by_length:
        rows = [(each.words, each.sentences, f"{each.bleu:.2f}") for each in found.by_length]
        console.table("", ("words of the source", "sentences", "BLEU"), rows)
    if found.confusion is not None:
        console.confusion(found.labels, found.confusion)
