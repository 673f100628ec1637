"""The error of a verb that was called without a model: its hint is a recipe that trains one."""

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
    "score_texts": Suggestion("shakespeare-char-cpu", 3),
    "transcribe": Suggestion("conformer-digits", 2),
}
PRETRAINED = {"summarize": "T5 or BART", "embed_images": "CLIP"}  # verb without a recipe -> pretrained models


def missing_model(verb: str) -> UserError:
    """The error of a verb that needs a model and got none."""
    message = f"{verb} needs a model, and none comes with regard"
    if verb in PRETRAINED:
        return UserError(
            message, f"name the Hugging Face folder of a {PRETRAINED[verb]} model (docs/pretrained.md)"
        )
    recipe, minutes = SUGGESTED[verb].recipe, SUGGESTED[verb].minutes
    missing = missing_data_sets(tomllib.loads(recipes_show(recipe)))
    downloads = "".join(f"`regard data get {name}`, then " for name in missing)
    time = "a minute" if minutes == 1 else f"{minutes} minutes"
    return UserError(
        message,
        f"{downloads}`regard train {recipe}` trains one in about {time}; its name is runs/{recipe}",
    )


def needs_model(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorates a verb, or the constructor of its class: without a `model` it raises `missing_model`."""
    signature, verb = inspect.signature(call), call.__module__.rpartition(".")[2]

    @functools.wraps(call)
    def with_model(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        if keywords.get("model") is None and _lacks_model(signature, arguments, keywords):
            raise missing_model(verb)
        return call(*arguments, **keywords)

    return with_model


def _lacks_model(signature: inspect.Signature, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """True if `model` is None or missing; it may be given by position."""
    try:
        return signature.bind_partial(*arguments, **keywords).arguments.get("model") is None
    except TypeError:  # a wrong argument, which the call itself reports
        return False
