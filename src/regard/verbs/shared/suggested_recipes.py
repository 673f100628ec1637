"""The error of a verb that was called without a model: it suggests a recipe that trains one."""

import functools
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from regard.errors import UserError
from regard.verbs.recipes import recipes_show
from regard.verbs.training_run.recipe_data import missing_data_sets

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Suggestion:
    """A recipe that comes with regard, and its training time in minutes on one core (recipes/README.md)."""

    recipe: str
    minutes: int


SUGGESTED = {  # verb -> the recipe that trains a model for it in the shortest time
    "generate": Suggestion("shakespeare-char-cpu", 3),
    "classify": Suggestion("sst2", 5),
    "classify_images": Suggestion("vit-mnist", 91),
    "classify_nodes": Suggestion("graph-transformer-cora", 1),
    "tag": Suggestion("ud-pos", 5),
    "embed": Suggestion("sst-mlm", 6),
    "fill": Suggestion("sst-mlm", 6),
    "transcribe": Suggestion("conformer-digits", 2),
}
PRETRAINED = {
    "summarize": "T5 or BART",
    "embed_images": "CLIP",
}  # verb without a recipe -> families of pretrained models


def missing_model(verb: str) -> UserError:
    """The error of a verb that needs a model and got none."""
    message = f"{verb} needs a model, and none comes with regard"
    if verb in PRETRAINED:
        return UserError(
            message, f"name the Hugging Face folder of a {PRETRAINED[verb]} model (docs/pretrained.md)"
        )
    suggestion = SUGGESTED[verb]
    missing = missing_data_sets(tomllib.loads(recipes_show(suggestion.recipe)))
    downloads = "".join(f"`regard data get {name}`, then " for name in missing)
    time = "a minute" if suggestion.minutes == 1 else f"{suggestion.minutes} minutes"
    return UserError(
        message,
        f"{downloads}`regard train {suggestion.recipe}` trains one in about {time};"
        f" its name is runs/{suggestion.recipe}",
    )


def needs_model(call: Callable[Parameters, Result], verb: str | None = None) -> Callable[Parameters, Result]:
    """Decorate a verb, or the constructor of its class: without a `model` it raises a helpful error.

    `verb`: the verb's name, if it differs from the name of its module.

    Raises:
        UserError: (when called) `model` is None or missing; the hint names a recipe that trains one.
    """
    signature, name = inspect.signature(call), verb or call.__module__.rpartition(".")[2]

    @functools.wraps(call)
    def with_model(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        if keywords.get("model") is None and _lacks_model(signature, arguments, keywords):
            raise missing_model(name)
        return call(*arguments, **keywords)

    return with_model


def _lacks_model(signature: inspect.Signature, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    try:
        return signature.bind_partial(*arguments, **keywords).arguments.get("model") is None
    except TypeError:  # a wrong argument, which the call itself reports
        return False
