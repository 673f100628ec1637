"""Transcription of recordings into labels, by a conformer with a CTC output."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch

from regard.data.examples import Examples
from regard.data.loader import bucket_by_length
from regard.data.transcriptions import (
    Recordings,
    TranscriptionBatch,
    TranscriptionExamples,
    TranscriptionSettings,
    label_ids,
    label_set,
    read_recordings,
    refuse_other_features,
    refuse_too_short,
)
from regard.decoding.control_fields import Beam, BeamSize
from regard.decoding.ctc import alignment_search
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import bootstrap_interval
from regard.evaluation.score import Score, version_fact
from regard.evaluation.sequences import edit_distance
from regard.models.conformer import Conformer, ConformerConfig
from regard.training.ctc import TemporalClassification
from regard.training.objective import Objective
from regard.verbs.generation.decoding_defaults import default_beam
from regard.verbs.shared.model_loading import model_that
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import (
    HeldOutData,
    Say,
    ScoreReport,
    Task,
    model_config,
    settings_of_test_data,
)
from regard.verbs.tasks.validation_split import PART_NAMES, examples_kept, settings_by_part
from regard.verbs.training_run.data_checks import refuse_other_data
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes

BATCH_FRAMES = 16_384  # padded frames without gradients: validation, test, `regard transcribe`


@dataclass(frozen=True, kw_only=True)
class TranscriptionTaskSettings:
    """The section `[task]` of a recipe."""

    kind: Literal["transcription"]  # the task


@dataclass(frozen=True, kw_only=True)
class TranscriptionDataSettings:
    """`[data]`: files of recordings and their transcripts."""

    train: TranscriptionSettings
    valid: TranscriptionSettings
    test: TranscriptionSettings | None = None


@dataclass(frozen=True, kw_only=True)
class TranscriptionRecipe(Recipe):
    """Recipe of a transcription model: data, model, training, decoding."""

    model_kind: ClassVar[str] = "conformer"
    cuts_texts: ClassVar[bool] = False
    predicts_classes: ClassVar[bool] = False
    measured: ClassVar[tuple[str, ...]] = ("label_error_rate",)
    task: TranscriptionTaskSettings
    data: TranscriptionDataSettings
    decoding: Beam = field(default_factory=Beam)  # of 1: the most probable alignment

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.label_smoothing:
            raise RecipeError("training.label_smoothing is not for CTC", "label_smoothing = 0.0")


class Transcription(Task):
    """Training, validation and test recordings; the model knows the labels of the training recordings."""

    use = "regard transcribe --model . RECORDINGS.npz"
    unit = "labels"

    def __init__(
        self,
        recipe: TranscriptionRecipe,
        labels: tuple[str, ...],
        config: ConformerConfig,
        parts: Mapping[str, Recordings],
    ) -> None:
        self.recipe: TranscriptionRecipe = recipe
        self.labels, self.config = labels, config
        self.files = {"generation.json": json_bytes(asdict(recipe.decoding))}
        self._parts = {part: TranscriptionExamples(each, labels) for part, each in parts.items()}

    def objective(self) -> Objective:
        return TemporalClassification()

    def examples(self) -> Examples:
        return self._parts["train"]

    def validate(self, model: Any) -> dict[str, float]:
        examples = self._parts["valid"]
        objective, batches = TemporalClassification(), _batches(examples)
        with torch.no_grad():
            losses = [objective(model, batch.to(model.device)) for batch in batches]
        loss = sum(float(loss.nll) for loss in losses) / sum(loss.num_targets for loss in losses)
        edits, lengths = _edits_and_lengths(model, examples, self.labels, self.recipe.decoding)
        return {"loss": loss, "label_error_rate": 100 * sum(edits) / max(1, sum(lengths))}

    def test(self, model: Any) -> list[Score]:
        if "test" not in self._parts:
            return []
        return _evaluate(model, self._parts["test"], self.labels, self.recipe.decoding).scores


def _evaluate(
    model: Conformer, examples: TranscriptionExamples, labels: Sequence[str], beam: BeamSize
) -> ScoreReport:
    """The label error rate: edits per label of the reference; the interval resamples recordings."""
    edits, lengths = _edits_and_lengths(model, examples, labels, beam)
    low, high = bootstrap_interval(edits, lengths)
    score = Score(
        name="label error rate",
        value=100 * sum(edits) / sum(lengths),
        low=100 * low,
        high=100 * high,
        signature=f"recordings:{len(edits)}|labels:{sum(lengths)}|beam:{beam.width}|bs:1000|{version_fact()}",
    )
    return ScoreReport(scores=[score])


def _edits_and_lengths(
    model: Conformer, examples: TranscriptionExamples, labels: Sequence[str], beam: BeamSize
) -> tuple[list[int], list[int]]:
    """For each recording the edit distance of its transcript to the reference, and the reference's length."""
    search = alignment_search(beam)
    edits, lengths = [], []
    for batch in _batches(examples):
        with torch.no_grad():
            logits = model(*batch.to(model.device).inputs).float().cpu()
        transcripts = search(logits, model.subsampled(batch.frame_lengths))
        for line, transcript in zip(batch.lines.tolist(), transcripts, strict=True):
            reference = examples.recordings.texts[line - 1]
            edits.append(edit_distance([labels[number] for number in transcript.ids], reference))
            lengths.append(len(reference))
    return edits, lengths


def _batches(examples: TranscriptionExamples) -> list[TranscriptionBatch]:
    numbers = np.arange(len(examples))
    groups = bucket_by_length(numbers, *examples.lengths(numbers, 0), BATCH_FRAMES)
    return [examples.batch(group, 0) for group in groups]


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test recordings; they must have the model's features and labels.

    If `data` is `NAME.npz`, their transcripts are in `NAME.txt`.
    """
    model = model_that("transcribes", Conformer, loaded)
    recipe = cast(TranscriptionRecipe, source.recipe)
    if data is None:
        settings, base = settings_of_test_data(recipe, loaded, None, source.base)
    else:
        settings, base = recipe.data.test or recipe.data.train, Path.cwd()
        text = f"{data.removesuffix('.npz')}.txt"
        settings = replace(settings, frames=data, text=text, synthetic=None)
    recordings = read_recordings(settings, base)
    refuse_other_features(recordings, model.config.num_features)
    label_ids(recordings, loaded.labels)
    _refuse_no_labels(recordings)
    return HeldOutData(
        size=f"{len(recordings):,} recordings, {_num_labels(recordings):,} labels",
        evaluate=partial(
            _evaluate,
            examples=TranscriptionExamples(recordings, loaded.labels),
            labels=loaded.labels,
            beam=default_beam(loaded),
        ),
    )


def _num_labels(recordings: Recordings) -> int:
    return sum(map(len, recordings.texts))


def _refuse_no_labels(recordings: Recordings) -> None:
    if not _num_labels(recordings):
        raise DataError(f"{recordings.name}: all transcripts are empty", "an error rate needs labels")


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Transcription:
    """Read or synthesise all recordings into memory, four bytes a number."""
    recipe = cast(TranscriptionRecipe, source.recipe)
    parts = {
        part: read_recordings(settings, source.base)
        for part, settings in settings_by_part(recipe.data).items()
    }
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in parts.items()}, folder)
    train = parts["train"]
    labels = label_set(train)
    config = cast(
        ConformerConfig, model_config(recipe, num_features=train.num_features, num_labels=len(labels))
    )
    for part in parts.values():
        refuse_other_features(part, train.num_features)
        label_ids(part, labels)
        refuse_too_short(part, config.subsampling_factor)
    for part, recordings in parts.items():
        frames, count = sum(map(len, recordings.frames)), _num_labels(recordings)
        say(f"{PART_NAMES[part]}: {len(recordings):,} recordings, {frames:,} frames, {count:,} labels")
        if part != "train":
            _refuse_no_labels(recordings)
    if limit is not None:
        parts = {part: each.first(examples_kept(part, limit) or limit) for part, each in parts.items()}
    return Transcription(recipe, labels, config, parts)
