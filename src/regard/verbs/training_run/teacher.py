"""The teacher of a run with `[training.distillation]`: loaded, and compared with the task of the run."""

import hashlib
import json
import math
from typing import Any

import torch

from regard.data.tokenizer import TokenizerPair
from regard.errors import FolderError, RecipeError
from regard.models.config import ModelConfig
from regard.models.model import Model
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.training.distillation import distilled
from regard.training.losses import chosen_loss
from regard.training.objective import Objective
from regard.training.r_drop import has_dropout, with_r_drop
from regard.training.settings import TrainingSettings
from regard.verbs.shared.model_loading import load_named_model, model_path
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Say, Task
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import LoadedModel, reads_text
from regard.weights.strict_json import json_bytes, read_json
from regard.weights.tensors import model_tensors

TEACHER = "teacher.json"  # file of a run folder: the path of the teacher, and the digest of its weights
INPUTS = ("image_size", "channels", "pixel_mean", "pixel_std", "num_features", "normalised", "undirected")


def load_teacher(
    source: RecipeFile, run: RunFolder, device: torch.device, *, writes: bool, say: Say
) -> LoadedModel | None:
    """The teacher of the recipe; None if it has none. `writes`: record it in the run's folder.

    Raises:
        UserError: it cannot be loaded, is another one than when the run began, or leaves a setting without
            effect.
    """
    settings = source.recipe.training.distillation
    if run.latest() is None:
        _refuse_smoothing_without_effect(source)
    if settings is None:
        return None
    teacher = load_named_model(model_path(settings.teacher, source.base), device)
    digest = _digest(teacher)
    if run.latest() is not None and (run.path / TEACHER).is_file():
        if read_json(run.path / TEACHER)["sha256"] != digest:
            raise FolderError(
                f"{teacher.path} is not the teacher with which this run began",
                "put the old one back, or train into another folder with --out",
            )
    elif writes:
        record = {"path": str(teacher.path), "sha256": digest}
        run.write_text(TEACHER, json_bytes(record).decode())
    say(f"teacher: {teacher.path}, weight {settings.weight:g}, temperature {settings.temperature:g}")
    return teacher


def _refuse_smoothing_without_effect(source: RecipeFile) -> None:
    """Raise a RecipeError if the recipe sets label smoothing, and its loss has none."""
    training = source.recipe.training
    distillation = training.distillation
    if not source.table.get("training", {}).get("label_smoothing"):
        return
    if training.loss:
        raise RecipeError(
            f"training.label_smoothing has no effect: the registered loss {training.loss!r} has none",
            "leave label_smoothing out; the function of a loss can smooth labels itself",
        )
    if distillation is not None and distillation.weight == 1:
        raise RecipeError(
            "training.label_smoothing has no effect: with distillation.weight = 1 no label is learned",
            "leave label_smoothing out, or make the weight smaller",
        )


def training_objective(task: Task, training: TrainingSettings, teacher: LoadedModel | None) -> Objective:
    """The loss of a run: the task's own or a registered one, with R-Drop or a teacher."""
    objective = chosen_loss(training.loss, task.objective(), training.loss_options)
    if training.r_drop and not _has_dropout(task, training):
        raise RecipeError(
            f"training.r_drop = {training.r_drop} has no effect: the model has no dropout",
            "set model.dropout above 0, or leave out r_drop, which doubles the cost of an update",
        )
    if teacher is None:
        return with_r_drop(objective, training.r_drop)
    assert training.distillation is not None
    return distilled(objective, teacher.model, training.distillation)


def _has_dropout(task: Task, training: TrainingSettings) -> bool:
    """True if two passes of the model can differ, by dropout."""
    adapter = training.adapter is not None and training.adapter.dropout > 0
    return adapter or has_dropout(task.config)


def refuse_other_targets(teacher: LoadedModel, task: Task, model: Model) -> None:
    """Raise a FolderError if the logits of the teacher and of `model` do not mean the same."""
    own, other = task.config, teacher.config
    both_translate = isinstance(model, SequenceToSequence) and isinstance(teacher.model, SequenceToSequence)
    if other.kind != own.kind and not both_translate:
        raise _unlike(teacher, f"is a model of kind {other.kind!r}, the run trains kind {own.kind!r}")
    if getattr(own, "head", None) != getattr(other, "head", None):
        raise _unlike(
            teacher, f"has the head {getattr(other, 'head', None)!r}, not {getattr(own, 'head', None)!r}"
        )
    if getattr(other, "fresh_head", False):
        raise _unlike(teacher, "has a head that was never trained")
    if teacher.labels != task.labels:
        raise _unlike(teacher, f"has other classes: {_listed(teacher.labels)}, not {_listed(task.labels)}")
    if reads_text(own) and TokenizerPair.of(task.files).digest() != teacher.tokenizers.digest():
        raise FolderError(
            f"{teacher.path}: the teacher's tokeniser is not that of the run",
            "leave out model.init and tokenizer.extension: a run with a teacher takes its tokeniser",
        )
    for name in INPUTS:
        if getattr(own, name, None) != getattr(other, name, None):
            raise _unlike(teacher, f"has {name} = {getattr(other, name)}, not {getattr(own, name)}")
    _refuse_short(teacher, model, task)


def _unlike(teacher: LoadedModel, how: str) -> FolderError:
    return FolderError(f"{teacher.path}: the teacher {how}", "name a teacher that was trained for this task")


def _listed(labels: tuple[str, ...]) -> str:
    return ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "") if labels else "none"


def _refuse_short(teacher: LoadedModel, model: Model, task: Task) -> None:
    """Raise a FolderError if the run has longer texts than the teacher can read."""
    limit = _length(teacher.model)
    longest = min(_length(model), getattr(task.recipe.task, "block", task.recipe.batches.max_tokens))
    if reads_text(task.config) and limit < longest:
        raise FolderError(
            f"{teacher.path}: the teacher reads at most {limit:g} tokens, and the run has up to {longest:g}",
            f"set batches.max_tokens = {limit:g} (of a language model, task.block)",
        )


def _length(model: Any) -> float:
    limit = getattr(model, "max_length", None)
    return math.inf if limit is None else float(limit)


def _digest(teacher: LoadedModel) -> str:
    """The SHA-256 of config, classes and weights, in whatever folder they are."""
    config: ModelConfig = teacher.config
    settings = {"kind": config.kind, "settings": config.to_dict(), "labels": teacher.labels}
    whole = hashlib.sha256(json.dumps(settings, sort_keys=True, default=list).encode())
    for name, tensor in sorted(model_tensors(teacher.model).items()):
        values = tensor.detach().cpu().contiguous()
        whole.update(f"\n{name} {values.dtype} {tuple(values.shape)}\n".encode())
        whole.update(values.flatten().view(torch.uint8).numpy().data)
    return whole.hexdigest()
