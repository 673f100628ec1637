"""Evaluate: scores of a trained model on test data, or of its translations of a file."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard import console
from regard.counted import counted
from regard.errors import UserError
from regard.evaluation.by_length import LengthScore
from regard.evaluation.class_scores import ClassScore, class_scores
from regard.evaluation.line_pairs import check_aligned
from regard.evaluation.score import BleuScore, Score
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.learned_metric import AnyMetrics, SourcesAndReferences, several_models
from regard.verbs.shared.lines import OWN_FILE, lines_of, references_of
from regard.verbs.shared.pretrained_recipe import evaluated_recipe
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime
from regard.verbs.shared.table_cells import PAIRS_IN_ONE_FILE, pairs_of
from regard.verbs.shared.test_data_settings import (
    changed_generation,
    reads_pairs,
    with_context,
    with_table,
)
from regard.verbs.shared.text_options import EvaluationOptions, TranslationOptions
from regard.verbs.shared.tokenize import Tokenize
from regard.verbs.shared.translation_scores import BleuSettings, TranslationScores
from regard.verbs.tasks.kinds import task_kind
from regard.verbs.translate import Translator
from regard.weights.model_folder import LoadedModel

OPTIONS = EvaluationOptions()
OF_PAIRS = ["metric", "lowercase", "tokenize", *(each.name for each in dataclasses.fields(OPTIONS))]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The scores of a model on test data, with signatures and 95 % intervals.

    `confusion[i][j]` counts examples of class i of `labels` that were predicted as class j. `classes` has the
    precision, recall and F1 of each label, and `entity_types` those of each type of entities, of a tagger.
    """

    model: Path | None  # None: translations that existed already
    examples: str  # their number in words: "15 texts"
    device: str
    scores: list[Score]
    labels: tuple[str, ...] = ()
    confusion: list[list[int]] | None = None
    classes: Sequence[ClassScore] = ()
    entity_types: Sequence[ClassScore] = ()

    @property
    def title(self) -> str:
        """What was evaluated, for a table of the scores: "runs/a: 15 texts"."""
        return f"{self.model}: {self.examples}"

    @property
    def bleu_parts(self) -> list[str]:
        """A line about each BLEU: what it is computed from."""
        return [each.parts for each in self.scores if isinstance(each, BleuScore)]

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that `regard evaluate --json` prints."""
        fields = {
            "model": None if self.model is None else str(self.model),
            "examples": self.examples,
            "device": self.device,
            "scores": [{**asdict(score), "decimals": score.decimals} for score in self.scores],
        }
        if self.confusion is None:
            return fields
        fields |= {"labels": list(self.labels), "confusion": self.confusion}
        fields["classes"] = [asdict(each) for each in self.classes]
        return (
            {**fields, "entity_types": [asdict(each) for each in self.entity_types]}
            if self.entity_types
            else fields
        )


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluation(Evaluation):
    """The BLEU, chrF++, chrF and TER of translations, and the scores of learned metrics.

    `hypotheses`: the file of translations that existed already; then there is no model and no beam.
    """

    sentences: int
    beam_size: int | None
    hypotheses: Path | None = None
    translations: list[str] = field(repr=False)
    by_length: list[LengthScore] = field(default_factory=list)  # empty unless requested

    @property
    def title(self) -> str:
        if self.hypotheses is not None:
            return f"{self.hypotheses}: {self.examples}"
        return f"{super().title}, beam {self.beam_size}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that `regard evaluate --json` prints; it has no translations."""
        fields = {**super().to_dict(), "sentences": self.sentences, "beam_size": self.beam_size}
        if self.hypotheses is not None:
            fields["hypotheses"] = str(self.hypotheses)
        return (
            {**fields, "by_length": [asdict(each) for each in self.by_length]} if self.by_length else fields
        )


@python_call
def evaluate(
    *,
    model: AnyModel | None = None,
    data: str | Path | None = None,
    columns: Sequence[str | int] = (),
    src: str | Path | None = None,
    ref: str | Path | Iterable[str | Path] = (),
    hypotheses: str | Path | None = None,
    metric: AnyMetrics = (),
    tokenize: Tokenize = "auto",
    lowercase: bool = False,
    by_length: bool = False,
    context: int | None = None,
    controls: Controls = UNSET,
    options: EvaluationOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> Evaluation:
    """Score a model on the test data of its recipe, on `data`, or on its translations of `src`.

    Returns an `Evaluation`; with `src` or pairs, a `TranslationEvaluation`, which also has the
    `translations`. Its `scores` is a list of `Score`, each with `name`, `value`, the ends `low` and `high` of
    the 95 % interval (None where there is none), and `signature`: how it was computed. BLEU, chrF++, chrF,
    TER, accuracies, F1, exact matches and error rates are in percent, perplexity is that of a token, losses
    are in nats, and the errors of numbers have the unit of the labels. The score of BLEU has its
    `brevity_penalty`, its `precisions` and both lengths.

    Args:
        model: a model or run folder, or what `regard.load` gives; None is the included model.
        data: a file of test data in the format of the recipe's, a table of labelled texts (CSV, TSV, JSON
            Lines), or pairs in one table, which are scored as `src` and `ref`; NAME:FILE is a file of the
            catalogue.
        columns: the columns of `data`, by name or number from 0: source and target, or text and label; ()
            detects those of pairs, of a CSV file and of a table in another format than the recipe's, and is
            the recipe's of other files.
        src: a file to translate, one sentence a line; the translations are scored against `ref`.
        ref: one or several files of references, aligned with `src` line by line; none for a metric that reads
            sources alone (quality estimation).
        hypotheses: a file of translations that exist already, aligned with `ref`: they are scored, and no
            model translates. `src` is for metrics that read it, and for `by_length`.
        metric: one or several learned metrics, each a folder that `regard convert` writes of a COMET metric,
            or what `regard.load` returns; their scores come after the others.
        tokenize: sacreBLEU's tokeniser; "auto" is the one for the references' script, "none" is for text that
            is tokenised already.
        lowercase: ignore case; learned metrics never do.
        by_length: also give BLEU by the length of the source; only for translations.
        context: for a language model, the tokens before each one that is predicted, at least; its windows
            move by `task.block` - `context`. None is that of the recipe.

    Raises:
        DataError: a file cannot be read, files have different numbers of lines, or the data hold classes or
            features that the model does not know.
        RecipeError: the recipe names no test data, and `data` is None.
    """
    references = [ref] if isinstance(ref, str | Path) else list(ref)
    metrics = several_models(metric)
    bleu = BleuSettings(tokenize=tokenize, lowercase=lowercase, by_length=by_length)
    pairs = None
    if data is not None and src is None and hypotheses is None and not references:
        model = open_model(model, runtime)
        if reads_pairs(model, columns):
            pairs, columns = _pairs(data, columns), ()
    has_files = src is not None and data is None and bool(references or metrics)
    if pairs is None and hypotheses is None and not has_files:
        only_on_pairs = [*_changed(bleu, BleuSettings()), *_changed(options, OPTIONS)]
        only_on_pairs += ["precision"] if runtime.changes_model else []
        _refuse_with_test_data(src, references, metrics, only_on_pairs)
        table = None if data is None else str(data), [str(each) for each in columns]
        return _evaluate_on_test_data(open_model(model, runtime), table, controls, context)
    if columns:
        raise UserError("columns are those of data", "leave them out")
    if context is not None:
        raise UserError("context is for the test data of a language model", "leave it out")
    tables = PAIRS_IN_ONE_FILE if hypotheses is None else OWN_FILE
    others = pairs or SourcesAndReferences(
        sources=None if src is None else lines_of(src, tables=tables),
        references=references_of(references, tables=tables),
    )
    if hypotheses is not None:
        _refuse_decoding(model, data, controls, options)
        return _evaluate_hypotheses(Path(hypotheses), others, metrics, bleu, runtime)
    sources = others.sources or ()
    scores = TranslationScores(sources, str(src if data is None else data), others, metrics, bleu, runtime)
    fields = {each.name: getattr(options, each.name) for each in dataclasses.fields(options)}
    translator = Translator(
        model,
        controls=controls,
        options=TranslationOptions(split="off", **fields),  # a line is one example
        runtime=runtime,
    )
    return _evaluate_translations(translator, sources, scores)


def _pairs(data: str | Path, columns: Sequence[str | int]) -> SourcesAndReferences:
    """The texts of a table of pairs."""
    sources, targets = pairs_of(data, [str(each) for each in columns])
    return SourcesAndReferences(sources=sources, references=[targets])


def _refuse_with_test_data(
    src: str | Path | None,
    references: Sequence[str | Path],
    metrics: Sequence[AnyModel],
    only_on_pairs: Sequence[str],
) -> None:
    """Raise a UserError for what is for the translations of a file, where test data are scored."""
    if metrics and src is None:
        raise UserError(
            "metric scores translations of src, which is missing", "give src, or leave metric out"
        )
    if src is not None or references:
        raise UserError(
            "src and ref do not go together with data, nor one without the other",
            "give src and ref, src and a metric that reads no references, data, or nothing",
        )
    if only_on_pairs:
        raise UserError(
            f"test data are scored without {' and '.join(only_on_pairs)}",
            "leave it out: it is for translations of a file (src and ref); test data are scored by the"
            " recipe's [validation]",
        )


def _changed(settings: Any, defaults: Any) -> list[str]:
    """The names of the settings that are not the defaults."""
    names = [each.name for each in dataclasses.fields(defaults)]
    return [name for name in names if getattr(settings, name) != getattr(defaults, name)]


def _refuse_decoding(
    model: AnyModel | None, data: str | Path | None, controls: Controls, options: EvaluationOptions
) -> None:
    """Raise a UserError for what translates, where there are translations already."""
    if model is not None or data is not None or controls != UNSET or options != OPTIONS:
        raise UserError(
            "hypotheses are translations already: no model, data or decoding is for them",
            "leave out the hypotheses, or the others; ref, src, metric, tokenize and lowercase stay",
        )


def _evaluate_on_test_data(
    loaded: LoadedModel, table: tuple[str | None, list[str]], controls: Controls, context: int | None
) -> Evaluation:
    """The task's scores on the test data of the model's recipe, or on a file and its columns."""
    source, data = with_table(with_context(evaluated_recipe(loaded, table[0]), context), *table)
    if controls != UNSET:
        loaded = dataclasses.replace(loaded, generation=changed_generation(loaded, controls))
    test_data = task_kind(source.recipe).open_test_data(source, loaded, data)
    console.note(
        f"{test_data.size}; device: {loaded.model.device}, {counted(torch.get_num_threads(), 'thread')}"
    )
    report = test_data.evaluate(loaded.model)
    classes = report.classes
    if not classes and report.confusion is not None:
        classes = class_scores(report.confusion, loaded.labels)
    return Evaluation(
        model=loaded.path,
        examples=test_data.size,
        device=str(loaded.model.device),
        scores=report.scores,
        labels=loaded.labels,
        confusion=None if report.confusion is None else report.confusion.tolist(),
        classes=classes,
        entity_types=report.entity_types,
    )


def _evaluate_hypotheses(
    file: Path,
    others: SourcesAndReferences,
    metrics: Sequence[AnyModel],
    bleu: BleuSettings,
    runtime: DecodingRuntime,
) -> TranslationEvaluation:
    """The scores of translations that exist already."""
    translations, name = lines_of(file), str(file)
    if others.sources is not None:
        check_aligned(translations, [others.sources], name, "source")
    elif bleu.by_length:
        raise UserError("by_length needs the sources", "give src (--src FILE)")
    if not others.references and not metrics:
        raise UserError(f"{name} is scored against references, which are missing", "give ref (--ref FILE)")
    scores = TranslationScores(translations, name, others, metrics, bleu, runtime)
    found, lengths = scores(translations)
    return TranslationEvaluation(
        model=None,
        hypotheses=file,
        examples=counted(len(translations), "sentence"),
        sentences=len(translations),
        beam_size=None,
        device=str(scores.metrics[0].loaded.model.device) if scores.metrics else "cpu",
        scores=found,
        translations=translations,
        by_length=lengths,
    )


def _evaluate_translations(
    translator: Translator, sources: Sequence[str], scores: TranslationScores
) -> TranslationEvaluation:
    """The scores of a model's translations of `sources`."""
    console.note(
        f"translating {counted(len(sources), 'sentence')}; device: {translator.device},"
        f" {counted(torch.get_num_threads(), 'thread')}, {counted(translator.workers, 'worker')}"
    )
    translations = [each.text for each in translator(sources)]
    found, lengths = scores(translations)
    return TranslationEvaluation(
        model=translator.loaded.path,
        examples=counted(len(sources), "sentence"),
        sentences=len(sources),
        beam_size=translator.settings.width,
        device=str(translator.device),
        scores=found,
        translations=translations,
        by_length=lengths,
    )
