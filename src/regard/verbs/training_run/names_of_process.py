"""Names of registered parts in a recipe: those that nothing has, or that only this process knows."""

from collections.abc import Iterator, Mapping
from typing import Any

from regard.data.corpus_formats import FORMATS
from regard.decoding.registries import RULES, SEARCHES
from regard.errors import RecipeError
from regard.models.build import MODELS
from regard.models.registered import PARTS
from regard.registry import Registry
from regard.training.losses import LOSSES, refuse_unknown_loss
from regard.training.registered_optimizers import OPTIMIZERS, refuse_unknown_optimizer
from regard.training.schedule import SCHEDULES, refuse_unknown_schedule
from regard.training.settings import TrainingSettings
from regard.verbs.tasks.kinds import KINDS

REGISTRIES: dict[str, Registry[Any]] = {  # setting of a recipe -> what its value names
    "task.kind": KINDS,
    "model.kind": MODELS,
    **{f"model.{part}": registry for part, registry in PARTS.items()},
    "training.loss": LOSSES,
    "training.optimizer.kind": OPTIMIZERS,
    "training.schedule.kind": SCHEDULES,
    "decoding.rules": RULES,
    "decoding.search": SEARCHES,
    **{f"data.{part}.format": FORMATS for part in ("train", "valid", "test")},
}


def refuse_unknown_names(training: TrainingSettings) -> None:
    """Raise a RecipeError for a loss, an optimiser or a schedule that is not registered.

    They are needed for training only: a model that was trained with them is used without them. So the recipe
    of a finished run is read without this check.
    """
    refuse_unknown_loss(training.loss, training.loss_options)
    refuse_unknown_optimizer(training.optimizer.kind, training.optimizer.options)
    refuse_unknown_schedule(training.schedule.kind, training.schedule.options)


def refuse_names_of_this_process(table: Mapping[str, Any], workers: int) -> None:
    """Raise a RecipeError for a registered name that the workers that this process starts do not know."""
    for setting, registry in REGISTRIES.items():
        for name in _values(table, setting):
            if name in registry and not registry.is_installed(name):
                raise RecipeError(
                    f"{setting} = {name!r} is registered in this process, not in {workers} workers",
                    "leave out workers, start the script that registers it with torchrun, or install its"
                    " package (docs/extending.md)",
                )


def _values(value: Any, setting: str) -> Iterator[str]:
    """The texts of this setting in a table; in lists of tables, too."""
    if isinstance(value, list):
        for each in value:
            yield from _values(each, setting)
    elif isinstance(value, Mapping):
        key, _, rest = setting.partition(".")
        yield from _values(value.get(key), rest)
    elif isinstance(value, str) and not setting:
        yield value
