"""What a verb says that was called without a model: which recipe trains one, and in how many minutes."""

import functools
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from regard.errors import UserError
from regard.verbs.recipe_data import missing_data_sets
from regard.verbs.recipes import recipes_show

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Suggestion:
    """A recipe that comes with regard, and the minutes that it took on one core (recipes/README.md)."""

    recipe: str
    minutes: int


SUGGESTED = {  # verb -> the recipe of a model for it that is trained soonest
    "generate": Suggestion("shakespeare-char-cpu", 3),
    "classify": Suggestion("sst2", 1),
    "classify_images": Suggestion("vit-mnist", 91),
    "classify_nodes": Suggestion("graph-transformer-cora", 1),
    "tag": Suggestion("ud-pos", 4),
    "embed": Suggestion("sst-mlm", 24),
    "fill": Suggestion("sst-mlm", 24),
    "transcribe": Suggestion("conformer-digits", 2),
}
PRETRAINED = {"summarize": "T5 or BART"}  # verb -> whose folders will do, where no recipe trains a model


def missing_model(verb: str) -> UserError:
    """What is said where `verb` needs a model and none is named."""
    message = f"{verb} needs a model, and none comes with regard"
    if verb in PRETRAINED:
        return UserError(
            message, f"name the Hugging Face folder of a {PRETRAINED[verb]} model (docs/pretrained.md)"
        )
    chosen = SUGGESTED[verb]
    missing = missing_data_sets(tomllib.loads(recipes_show(chosen.recipe)))
    first = "".join(f"`regard data get {name}`, then " for name in missing)
    about = "a minute" if chosen.minutes == 1 else f"{chosen.minutes} minutes"
    return UserError(
        message,
        f"{first}`regard train {chosen.recipe}` trains one in about {about};"
        f" its name is runs/{chosen.recipe}",
    )


def needs_model(call: Callable[Parameters, Result], verb: str | None = None) -> Callable[Parameters, Result]:
    """A verb, or the constructor of its class, which says more where `model` is left out or None.

    `verb`: its name, if that is not the name of its file.

    Raises:
        UserError: (when called) there is no model; the hint names a recipe that trains one.
    """
    signature, name = inspect.signature(call), verb or call.__module__.rpartition(".")[2]

    @functools.wraps(call)
    def asked(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        if keywords.get("model") is None and _lacks_model(signature, arguments, keywords):
            raise missing_model(name)
        return call(*arguments, **keywords)

    return asked


def _lacks_model(signature: inspect.Signature, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    try:
        return signature.bind_partial(*arguments, **keywords).arguments.get("model") is None
    except TypeError:  # another mistake, which the call itself explains
        return False
