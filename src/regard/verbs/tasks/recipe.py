"""What the recipes of all tasks have in common, and a recipe with the place it came from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from regard.data.loader import LoaderSettings
from regard.distributed.settings import DistributedSettings
from regard.errors import RecipeError
from regard.training.settings import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One TOML file. Each task has its own class, with sections for its data and for what it measures."""

    model_kind: ClassVar[str]  # the model of the task where `[model]` names no `kind`
    name: str
    description: str = ""
    card: str = ""  # goes into the model card: licence and attribution of the data, limits
    model: dict[str, Any] = field(default_factory=dict)  # its kind, a preset and what differs from it
    batches: LoaderSettings = field(default_factory=LoaderSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    distributed: DistributedSettings = field(default_factory=DistributedSettings)

    @property
    def measured(self) -> tuple[str, ...]:
        """What validation gives besides the loss: `training.best_metric` is one of them."""
        return ()

    def __post_init__(self) -> None:
        names = ("best_metric", "second_metric")
        for name, metric in zip(names, self.training.choosing, strict=False):
            if metric not in ("loss", *self.measured):
                raise RecipeError(
                    f"training.{name} is {metric!r}, which validation does not measure",
                    f"it gives {', '.join(('loss', *self.measured))}",
                )


@dataclass(frozen=True, kw_only=True)
class RecipeFile:
    """A recipe with its source: the table that was read, the text verbatim, and where its paths begin."""

    recipe: Recipe
    table: dict[str, Any]
    text: str
    base: Path
