"""Names in a recipe that only this process knows, because a script registered them."""

from collections.abc import Iterator, Mapping
from typing import Any

from regard.data.corpus_formats import FORMATS
from regard.decoding.registries import RULES, SEARCHES
from regard.errors import RecipeError
from regard.models.build import MODELS
from regard.models.registered import ATTENTIONS, POSITIONS
from regard.registry import Registry
from regard.training.losses import LOSSES
from regard.verbs.tasks.kinds import KINDS

REGISTRIES: dict[str, Registry[Any]] = {  # setting of a recipe -> what its value names
    "task.kind": KINDS,
    "model.kind": MODELS,
    "model.positions": POSITIONS,
    "model.attention": ATTENTIONS,
    "training.loss": LOSSES,
    "decoding.rules": RULES,
    "decoding.search": SEARCHES,
    **{f"data.{part}.format": FORMATS for part in ("train", "valid", "test")},
}


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


def _values(table: Mapping[str, Any], setting: str) -> Iterator[str]:
    """The texts of this setting of a recipe."""
    value: Any = table
    for key in setting.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    yield from [value] if isinstance(value, str) else [each for each in value or () if isinstance(each, str)]
