"""Options of registered losses, optimisers and schedules: arguments that a recipe gives by name."""

import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from regard.errors import RecipeError, did_you_mean


def refuse_unwritable_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise a RecipeError for options that a recipe could not have."""
    try:
        json.dumps(options)
    except (TypeError, ValueError) as error:
        raise RecipeError(
            f"{name} must be numbers, texts and lists of these: {error}", "as a recipe has them"
        ) from None


def refuse_other_options(
    what: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    *,
    setting: str,
    not_options: Collection[str] = (),
) -> None:
    """Raise a RecipeError if a registered function does not have these options.

    Args:
        what: the function, for messages: "the optimiser 'muon'".
        arguments: those by position, with which it is called, too.
        setting: the key of a recipe that has the options.
        not_options: parameters of which no option is made.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a class written in C
        return
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        parameters = [*signature.parameters.values()][len(arguments) :]
        named = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        known = [name for name in named if name not in not_options]
        wrong = next((key for key in options if key not in known), None)
        hint = f"change {setting}, or what is registered under this name"
        if wrong is not None:
            hint = did_you_mean(wrong, known) if known else "it has no options"
        raise RecipeError(f"{setting}: {what}: {error}", hint) from None
