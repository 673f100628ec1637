"""Transcription: what is said in recordings, by any model that gives logits of labels and a blank."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
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
    labels_of,
    read_recordings,
    refuse_other_features,
    refuse_too_short,
)
from regard.decoding.controls import Beam, BeamSize
from regard.decoding.ctc import alignment_search
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import bootstrap_interval
from regard.evaluation.score import Score
from regard.evaluation.sequences import edit_distance
from regard.models.conformer import Conformer, ConformerConfig
from regard.training.ctc import TemporalClassification
from regard.training.objective import Objective
from regard.verbs.box import model_that
from regard.verbs.data_fingerprints import refuse_other_data
from regard.verbs.decoding_defaults import default_beam
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import TRIAL, HeldOutData, Measured, Say, Task, held_settings, model_config
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes

BATCH_FRAMES = 16_384  # padded frames that are looked at together in validation and test


@dataclass(frozen=True, kw_only=True)
class TranscriptionTaskSettings:
    """`[task]`."""

    kind: Literal["transcription"]


@dataclass(frozen=True, kw_only=True)
class TranscriptionDataSettings:
    """Where the recordings are."""

    train: TranscriptionSettings
    valid: TranscriptionSettings
    test: TranscriptionSettings | None = None


@dataclass(frozen=True, kw_only=True)
class TranscriptionRecipe(Recipe):
    """Data, model, training, decoding."""

    model_kind: ClassVar[str] = "conformer"
    task: TranscriptionTaskSettings
    data: TranscriptionDataSettings
    decoding: Beam = field(default_factory=Beam)  # of 1: the most probable alignment

    @property
    def measured(self) -> tuple[str, ...]:
        return ("label_error_rate",)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.model.get("kind", self.model_kind)
        if kind != ConformerConfig.kind:
            raise RecipeError(f"model.kind = {kind!r} reads no frames", "leave model.kind out")
        for name in ("label_smoothing", "r_drop"):
            if getattr(self.training, name):
                raise RecipeError(f"training.{name} is for labels that have a place", f"{name} = 0.0")


class Transcription(Task):
    """Recordings to train on, to validate on, to test on; the labels of the first are all there are."""

    use = "regard transcribe --model . RECORDINGS.npz"

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
        edits, labels = _edits(model, examples, self.labels, self.recipe.decoding)
        return {"loss": loss, "label_error_rate": 100 * sum(edits) / max(1, sum(labels))}

    def test(self, model: Any) -> list[Score]:
        if "test" not in self._parts:
            return []
        return _measured(model, self._parts["test"], self.labels, self.recipe.decoding).scores


def _measured(
    model: Conformer, examples: TranscriptionExamples, labels: Sequence[str], beam: BeamSize
) -> Measured:
    """Edits of labels per label of the reference; the interval is of recordings resampled."""
    edits, of = _edits(model, examples, labels, beam)
    low, high = bootstrap_interval(edits, of)
    score = Score(
        name="label error rate",
        value=100 * sum(edits) / sum(of),
        low=100 * low,
        high=100 * high,
        signature=f"recordings:{len(edits)}|labels:{sum(of)}|beam:{beam.width}|bs:1000"
        f"|version:regard {version('regard')}",
    )
    return Measured(scores=[score])


def _edits(
    model: Conformer, examples: TranscriptionExamples, labels: Sequence[str], beam: BeamSize
) -> tuple[list[int], list[int]]:
    """Of each recording: edits between what is found and what was said, and how many labels that has."""
    search = alignment_search(beam)
    edits, of = [], []
    for batch in _batches(examples):
        with torch.no_grad():
            logits = model(*batch.to(model.device).inputs).float().cpu()
        found = search(logits, model.subsampled(batch.frame_lengths))
        for line, transcript in zip(batch.lines.tolist(), found, strict=True):
            said = examples.recordings.texts[line - 1]
            edits.append(edit_distance([labels[number] for number in transcript.ids], said))
            of.append(len(said))
    return edits, of


def _batches(examples: TranscriptionExamples) -> list[TranscriptionBatch]:
    numbers = np.arange(len(examples))
    groups = bucket_by_length(numbers, *examples.lengths(numbers, 0), BATCH_FRAMES)
    return [examples.batch(group, 0) for group in groups]


def hold(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test recordings, whose features and labels are those that the model knows.

    Beside other frames, `NAME.npz`, their text is `NAME.txt`.
    """
    model = model_that("transcribes", Conformer, loaded)
    given = cast(TranscriptionRecipe, source.recipe).data
    if data is None:
        settings, base = held_settings(given, None, source.base)
    else:
        text = f"{data.removesuffix('.npz')}.txt"
        settings, base = (
            replace(given.test or given.train, frames=data, text=text, synthetic=None),
            Path.cwd(),
        )
    recordings = read_recordings(settings, base)
    refuse_other_features(recordings, model.config.num_features)
    label_ids(recordings, loaded.labels)
    spoken = sum(map(len, recordings.texts))
    if not spoken:
        raise DataError(f"{recordings.name}: nothing is said in any recording", "an error rate needs labels")
    return HeldOutData(
        counted=f"{len(recordings):,} recordings, {spoken:,} labels",
        measure=partial(
            _measured,
            examples=TranscriptionExamples(recordings, loaded.labels),
            labels=loaded.labels,
            beam=default_beam(loaded),
        ),
    )


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Transcription:
    """Read or make all recordings; they stay in memory, four bytes a number."""
    recipe = cast(TranscriptionRecipe, source.recipe)
    given = {"train": recipe.data.train, "valid": recipe.data.valid, "test": recipe.data.test}
    parts = {part: read_recordings(settings, source.base) for part, settings in given.items() if settings}
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in parts.items()}, folder)
    train = parts["train"]
    labels = labels_of(train)
    config = cast(
        ConformerConfig, model_config(recipe, num_features=train.num_features, num_labels=len(labels))
    )
    for part in parts.values():
        refuse_other_features(part, train.num_features)
        label_ids(part, labels)
        refuse_too_short(part, config.subsampling_factor)
    for part, name in (("train", "training"), ("valid", "validation"), ("test", "test")):
        if part in parts:
            frames = sum(map(len, parts[part].frames))
            spoken = sum(map(len, parts[part].texts))
            say(f"{name}: {len(parts[part]):,} recordings, {frames:,} frames, {spoken:,} labels")
            if part != "train" and not spoken:
                raise DataError(
                    f"{parts[part].name}: nothing is said in any recording", "an error rate needs labels"
                )
    if limit is not None:
        parts = {part: each.first(limit if part == "train" else TRIAL) for part, each in parts.items()}
    return Transcription(recipe, labels, config, parts)
