"""`regard evaluate`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError
from regard.verbs.generation.controls import Controls
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.shared.text_options import EvaluationOptions, TaskOptions
from regard.verbs.shared.tokenize import Tokenize


@click.command("evaluate", cls=Command)
@options.model
@click.option(
    "--data",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Test data in the format of the recipe's, to use instead of them; or a table (TSV, CSV, JSON Lines)"
    " of labelled texts, or of pairs.",
)
@options.columns(
    "With --data: the columns of source and target, or of text and label, by name or number from 0."
    " [default: detected]"
)
@click.option("--src", type=options.FILE_PATH, metavar="FILE", help="File to translate, one sentence a line.")
@click.option(
    "--ref",
    type=options.FILE_PATH,
    multiple=True,
    metavar="FILE",
    help="References, aligned with --src line by line; repeat the option for several files.",
)
@click.option(
    "--hypotheses",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Translations that exist already, aligned with --ref; no model translates.",
)
@click.option(
    "--sets",
    type=options.FILE_PATH,
    metavar="FILE",
    help="Score many test sets, of a TOML file: [NAME] with src and ref, or data, for each.",
)
@click.option(
    "--output",
    metavar="DIR",
    help="With --sets: write scores and translations there, and leave out the sets that are there.",
)
@options.fields_of("tasks", TaskOptions)
@options.metrics
@options.tokenize
@options.lowercase
@click.option("--by-length", is_flag=True, help="Also show BLEU by the length of the source.")
@click.option(
    "--context",
    type=options.LimitedInt("context"),
    metavar="N",
    help="Of a language model: the tokens before each that is predicted, at least; its windows move by the"
    " rest of a block. [default: that of the recipe]",
)
@options.fields_of("options", EvaluationOptions)
@options.controls
@options.as_json
@options.fields_of("runtime", DecodingRuntime)
def command(
    model: Path | None,
    data: Path | None,
    columns: tuple[str, ...],
    src: Path | None,
    ref: tuple[Path, ...],
    hypotheses: Path | None,
    sets: Path | None,
    output: str | None,
    tasks: TaskOptions,
    metric: tuple[Path, ...],
    tokenize: Tokenize,
    lowercase: bool,
    by_length: bool,
    context: int | None,
    options: EvaluationOptions,
    controls: Controls,
    as_json: bool,
    runtime: DecodingRuntime,
) -> None:
    """Score a model on test data: classes, labels, running text, translations.

    Without --data and --src the test data of the model's recipe are used. Scores have signatures and
    95 % intervals; classifiers have a confusion matrix, and precision, recall and F1 of each class.

    With --src and --ref, or pairs as --data, texts are translated and scored with sacreBLEU: BLEU, chrF++,
    chrF and TER; chrF++ comes first if the references have no spaces between words. With --hypotheses and
    --ref translations are scored that exist already. NAME:FILE is a file of a data set (`regard data list`).
    --metric adds the score of a learned metric; one that reads no references needs no --ref. A line has what
    BLEU is computed from: the n-gram precisions, the brevity penalty and the lengths.
    """
    settings = {
        "model": model,
        "metric": metric,
        "tokenize": tokenize,
        "lowercase": lowercase,
        "controls": controls,
        "options": options,
        "runtime": runtime,
    }
    if sets is not None:
        if hypotheses is not None:
            raise UserError(
                "--sets translates, and --hypotheses are translations already",
                "score each file by a call of its own, or several systems by regard compare",
            )
        if src is not None or ref or data is not None or columns or by_length:
            others = "--data, --columns, --src, --ref and --by-length"
            raise UserError("--sets names all files", f"leave out {others}")
        _evaluate_sets(sets, output, tasks, {**settings, "context": context}, as_json)
        return
    if output is not None or tasks != TaskOptions():
        raise UserError(
            "--output, --shard, --on and --processes are for --sets", "give a file of test sets: --sets FILE"
        )
    if hypotheses is None:
        _refuse_unfit_files(data, src, ref, metric)
    files = {"data": data, "columns": columns, "src": src, "ref": ref, "hypotheses": hypotheses}
    _evaluate({**files, "by_length": by_length, "context": context, **settings}, as_json)


def _refuse_unfit_files(
    data: Path | None, src: Path | None, ref: tuple[Path, ...], metric: tuple[Path, ...]
) -> None:
    """Raise a UserError for files of which one is missing, or one too many."""
    if src is None and metric and not ref and data is None:
        raise UserError("--src FILE is missing", "--metric scores translations of a file")
    if (src is None) != (not ref) and not (src is not None and metric):
        missing = "--src FILE" if src is None else "--ref FILE"
        raise UserError(f"{missing} is missing", "translations need a source and at least one reference")
    if src is not None and data is not None:
        raise UserError("--data and --src do not go together", "leave one of them out")


def _evaluate(settings: Mapping[str, Any], as_json: bool) -> None:
    """Print the scores of a model, or of translations."""
    with importing():
        from regard import console
        from regard.verbs.evaluate import TranslationEvaluation, evaluate

    evaluation = evaluate(**settings)
    if as_json:
        click.echo(json.dumps(evaluation.to_dict(), indent=2))
        return
    console.scores(evaluation.title, evaluation.scores)
    for parts in evaluation.bleu_parts:
        console.say(parts)
    if isinstance(evaluation, TranslationEvaluation) and evaluation.by_length:
        rows = [(each.words, each.sentences, f"{each.bleu:.2f}") for each in evaluation.by_length]
        console.table("", ("words of the source", "sentences", "BLEU"), rows)
    if evaluation.confusion is not None:
        console.print_confusion(evaluation.labels, evaluation.confusion)
    if found := evaluation.entity_types or evaluation.classes:
        rows = [
            (
                each.label,
                each.count,
                each.predicted,
                *(f"{x:.2f}" for x in (each.precision, each.recall, each.f1)),
            )
            for each in found
            if each.count or each.predicted
        ]
        name = "type of entity" if evaluation.entity_types else "class"
        console.say("")
        console.table("", (name, "count", "predicted", "precision", "recall", "F1"), rows)


def _evaluate_sets(
    sets: Path, output: str | None, tasks: TaskOptions, settings: Mapping[str, Any], as_json: bool
) -> None:
    """Print a row of scores for each test set."""
    with importing():
        from regard import console
        from regard.cli.jobs import print_tasks
        from regard.verbs.evaluate_sets import TaskRecord, evaluate_sets

    def note(record: TaskRecord) -> None:
        console.note(f"{record.task}: {record.seconds:.1f} seconds")

    found = evaluate_sets(sets, output=output, tasks=tasks, done=note, **settings)
    if as_json:
        click.echo(json.dumps([{"set": each.task, **each.result} for each in found.done], indent=2))
        return
    print_tasks(found)
