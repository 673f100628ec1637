"""Evaluate: what a trained model reaches on test data, its own or other; translators on two files too."""

import dataclasses
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard import console
from regard.errors import UserError
from regard.evaluation.by_length import LengthScore, bleu_by_length
from regard.evaluation.line_pairs import check_aligned
from regard.evaluation.score import Score
from regard.evaluation.translation import corpus_scores, tokenization_warnings
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.controls import MODEL_BEAM, BeamSize
from regard.verbs.keyword_fields import keyword_fields
from regard.verbs.lines import lines_of, references_of
from regard.verbs.runtime import DECODING_RUNTIME, DecodingRuntime
from regard.verbs.settings import recipe_of
from regard.verbs.tasks.kinds import kind_of
from regard.verbs.text_options import TranslationOptions, WorkerOptions
from regard.verbs.tokenize import Tokenize
from regard.verbs.translate import Translator
from regard.verbs.translation_scoring import Scoring, scoring_for
from regard.weights.model_folder import LoadedModel

OPTIONS = WorkerOptions()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model reaches on test data: scores with their signatures and 95 % intervals.

    `confusion[i][j]`: how often class i of `labels` is taken for class j.
    """

    model: Path
    examples: str  # how many of what
    device: str
    scores: list[Score]
    labels: tuple[str, ...] = ()
    confusion: list[list[int]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As `regard evaluate --json` prints it."""
        found = {
            "model": str(self.model),
            "examples": self.examples,
            "device": self.device,
            "scores": [asdict(score) for score in self.scores],
        }
        if self.confusion is None:
            return found
        return {**found, "labels": list(self.labels), "confusion": self.confusion}


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluation(Evaluation):
    """Of translations: BLEU, chrF++ and TER."""

    sentences: int
    beam_size: int
    translations: list[str] = field(repr=False)
    by_length: list[LengthScore] = field(default_factory=list)  # where it was asked for

    def to_dict(self) -> dict[str, Any]:
        """As `regard evaluate --json` prints it: without the translations."""
        found = {**super().to_dict(), "sentences": self.sentences, "beam_size": self.beam_size}
        return {**found, "by_length": [asdict(each) for each in self.by_length]} if self.by_length else found


@checked
@keyword_fields
def evaluate(
    *,
    model: AnyModel | None = None,
    data: str | Path | None = None,
    src: str | Path | None = None,
    ref: str | Path | Iterable[str | Path] = (),
    tokenize: Tokenize = "auto",
    lowercase: bool = False,
    by_length: bool = False,
    beam: BeamSize = MODEL_BEAM,
    options: WorkerOptions = OPTIONS,
    runtime: DecodingRuntime = DECODING_RUNTIME,
) -> Evaluation:
    """Score a model on the test data of the recipe that it was trained by.

    Args:
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        data: a file to be read as those are, in their place; NAME:FILE is a file of the catalogue.
        src: a file to translate, one sentence a line; it is scored against `ref`.
        ref: one file of references or several, aligned with `src` line by line.
        tokenize: what sacreBLEU counts as words; "auto" is the tokeniser that fits the script of the
            references, "none" is for text that is tokenised already.
        lowercase: score without regard to case.
        by_length: of such translations, BLEU by the length of the source too.

    Raises:
        DataError: the files cannot be read, have not as many lines as each other, or hold what the model
            does not know.
        RecipeError: the recipe names no test data, and none are given.
    """
    references = [ref] if isinstance(ref, str | Path) else list(ref)
    if src is not None and references and data is None:
        lines, lines_of_references = lines_of(src), references_of(references)
        check_aligned(lines, lines_of_references, str(src))
        scoring = scoring_for(lines_of_references, tokenize)
        translator = Translator(
            model,
            controls=beam.controls,
            options=TranslationOptions(split="off", workers=options.workers),  # a line is one example
            runtime=runtime,
        )
        return _of_translations(translator, lines, lines_of_references, scoring, lowercase, by_length)
    if src is not None or references:
        raise UserError(
            "a source, references and other data do not go together",
            "give a source and its references, or a file of test data, or neither",
        )
    if by_length or lowercase or tokenize != "auto" or options.workers is not None or runtime.changes_model:
        raise UserError(
            "scores by length, without case or of other words, workers and precision are of translations",
            "give a source and its references; for other data the recipe's [validation] says it",
        )
    return _of_held_out(open_model(model, runtime), data, beam)


def _of_held_out(loaded: LoadedModel, data: str | Path | None, beam: BeamSize) -> Evaluation:
    """What the kind of task measures on the test data of the model's recipe, or on `data` in their place."""
    source = recipe_of(loaded.path)
    if beam.has_beam:
        if not loaded.config.generates:
            raise UserError(f"{loaded.path}: this model searches for nothing", "leave the beam size out")
        loaded = dataclasses.replace(loaded, generation={**loaded.generation, **asdict(beam)})
    held = kind_of(source.recipe).hold(source, loaded, None if data is None else str(data))
    console.note(f"{held.counted}; device: {loaded.model.device}, {torch.get_num_threads()} threads")
    found = held.measure(loaded.model)
    return Evaluation(
        model=loaded.path,
        examples=held.counted,
        device=str(loaded.model.device),
        scores=found.scores,
        labels=loaded.labels,
        confusion=None if found.confusion is None else found.confusion.tolist(),
    )


def _of_translations(
    translator: Translator,
    sources: list[str],
    references: list[list[str]],
    scoring: Scoring,
    lowercase: bool,
    by_length: bool,
) -> TranslationEvaluation:
    console.note(
        f"translating {len(sources):,} sentences; device: {translator.device},"
        f" {torch.get_num_threads()} threads, {translator.workers} workers"
    )
    translations = [each.text for each in translator(sources)]
    for caution in tokenization_warnings(translations, tokenize=scoring.tokenize):
        console.warn(caution)
    return TranslationEvaluation(
        model=translator.loaded.path,
        examples=f"{len(sources):,} sentences",
        sentences=len(sources),
        beam_size=translator.settings.width,
        device=str(translator.device),
        scores=corpus_scores(
            translations,
            references,
            tokenize=scoring.tokenize,
            lowercase=lowercase,
            metrics=scoring.metrics,
        ),
        translations=translations,
        by_length=bleu_by_length(
            sources, translations, references, tokenize=scoring.tokenize, lowercase=lowercase
        )
        if by_length
        else [],
    )
