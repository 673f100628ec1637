"""The settings that the recipes of all tasks share, and a recipe with the file it was read from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from regard.data.loader import LoaderSettings
from regard.distributed.settings import DistributedSettings
from regard.errors import RecipeError
from regard.training.settings import TrainingSettings

UNTRAINED = ("image_text", "speech_to_text", "translation_metric")  # kinds that no task trains


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of one TOML file. Each task has a subclass with sections for its data and validation."""

    model_kind: ClassVar[str]  # the kind of model where `[model]` names no `kind`
    other_model_kinds: ClassVar[bool] = False  # True if the task can train other kinds than `model_kind`
    predicts_classes: ClassVar[bool] = True  # or tokens: what R-Drop compares
    cuts_texts: ClassVar[bool] = True  # by `batches.max_tokens`
    measured: ClassVar[tuple[str, ...]] = ()  # by validation, besides the loss
    name: str  # the name of the run, and of its folder in runs/
    description: str = ""  # a line for lists of recipes and the model card
    card: str = ""  # text for the model card: licence and attribution of the data, limits
    model: dict[str, Any] = field(default_factory=dict)  # kind, preset, and settings that differ from it
    batches: LoaderSettings = field(default_factory=LoaderSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    distributed: DistributedSettings = field(default_factory=DistributedSettings)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics of a validation besides the loss; `training.best_metric` is one of them or the loss."""
        return self.measured

    @property
    def chosen_model_kind(self) -> str:
        """The kind of model to train: that of `[model]`, or the task's default."""
        return self.model.get("kind", self.model_kind)

    def __post_init__(self) -> None:
        names = ("best_metric", "second_metric")
        for name, metric in zip(names, self.training.choosing, strict=False):
            if metric not in ("loss", *self.metric_names):
                raise RecipeError(
                    f"training.{name} is {metric!r}, which validation does not measure",
                    f"choose one of {', '.join(('loss', *self.metric_names))}",
                )
        if self.chosen_model_kind in UNTRAINED:
            raise RecipeError(
                f"model.kind = {self.chosen_model_kind!r}: no task trains models of this kind",
                "such models are converted from pretrained ones: docs/pretrained.md",
            )
        if not self.other_model_kinds and self.chosen_model_kind != self.model_kind:
            raise RecipeError(
                f"model.kind = {self.chosen_model_kind!r}: this task trains {self.model_kind!r} models only",
                "leave model.kind out",
            )
        self._check_use_of_validation()
        if self.training.r_drop and not self.predicts_classes:
            raise RecipeError(
                "training.r_drop is set, but this task predicts no classes or tokens", "leave it out"
            )

    def refuse_unused(self) -> None:
        """Raise a RecipeError for a setting that has no effect beside the others."""
        if not self.cuts_texts and self.batches.max_tokens != LoaderSettings.max_tokens:
            raise RecipeError(
                f"batches.max_tokens = {self.batches.max_tokens} has no effect in this task", "leave it out"
            )

    def _check_use_of_validation(self) -> None:
        """Refuse settings that need validation data if the run trains on them, and the other way round."""
        trains_on_valid = getattr(getattr(self, "data", None), "train_on_valid", None)  # None: it never can
        if self.training.refit and trains_on_valid is None:
            raise RecipeError(
                "training.refit is set, but this task cannot train on its validation data", "leave it out"
            )
        if self.training.refit and trains_on_valid:
            raise RecipeError(
                "training.refit and data.train_on_valid are both set, and a run that validates nothing needs"
                " no second one",
                "leave out the one or the other",
            )
        if trains_on_valid:
            self.training.refuse_selection("data.train_on_valid")


@dataclass(frozen=True, kw_only=True)
class RecipeFile:
    """A recipe and its source: the table that was read, its text, the folder its paths are relative to."""

    recipe: Recipe
    table: dict[str, Any]
    text: str
    base: Path
