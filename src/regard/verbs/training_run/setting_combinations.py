"""The runs of a sweep: each combination of the values of some settings."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from regard.errors import RecipeError
from regard.recipe import set_value
from regard.verbs.shared.recipe_text import toml

MOST_RUNS = 10_000
MOST_CHARACTERS = 200  # of the name of a folder
UNUSUAL = re.compile(r"[^\w.+-]+")  # characters in one
EXAMPLE = "--sweep training.schedule.learning_rate=1e-3,2e-3"


def setting_combinations(values: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The settings of each run, by its name: `learning_rate=1e-3,seed=1`.

    A first value that is missing, as in `training.loss=,focal`, is the empty text; its run is `loss=empty`.

    Raises:
        RecipeError: a setting has no name, no values, or is named twice.
    """
    axes: dict[str, list[str]] = {}
    for each in values:
        key, equals, text = each.partition("=")
        found = [value.strip() for value in split_values(text)]
        if len(found) > 1 and not found[0]:
            found[0] = '""'
        if not equals or not key.strip() or not all(found):
            raise RecipeError(f"--sweep {each}: not of the form section.key=value,value", EXAMPLE)
        if key.strip() in axes:
            raise RecipeError(f"--sweep {key.strip()} is given twice", "give all of its values at once")
        if len(set(found)) < len(found):
            raise RecipeError(f"--sweep {each}: a value is given twice", "leave one of them out")
        axes[key.strip()] = found
    if not axes:
        raise RecipeError("a sweep has no setting", EXAMPLE)
    if math.prod(map(len, axes.values())) > MOST_RUNS:
        raise RecipeError(f"a sweep of more than {MOST_RUNS:,} runs", "leave values out")
    short = _short_names(list(axes))
    runs: dict[str, tuple[str, ...]] = {}
    for chosen in itertools.product(*axes.values()):
        pairs = list(zip(axes, chosen, strict=True))
        name = ",".join(f"{short[key]}={_in_a_name(value)}" for key, value in pairs)
        if name in runs or len(name) > MOST_CHARACTERS:
            raise RecipeError(
                f"--sweep: {name} is not a name for one run", "give other values, or fewer settings"
            )
        runs[name] = tuple(f"{key}={value}" for key, value in pairs)
    return runs


def written_values(values: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """The values of a sweep as `setting_combinations` reads them, also of a dict of lists."""
    if not isinstance(values, Mapping):
        return list(values)
    for key, each in values.items():
        if isinstance(each, str) or not isinstance(each, Iterable):
            raise RecipeError(
                f"the values of {key} must be a list, not {each!r}",
                'sweep(recipe, {"training.seed": [1, 2]})',
            )
    return [f"{key}={','.join(map(_written, each))}" for key, each in values.items()]


def _written(value: Any) -> str:
    """A value as `--set` reads it; a text without quotes where it is one so too."""
    if isinstance(value, str):
        is_plain = set_value(value) == value and split_values(value) == [value] and value == value.strip()
        return value if is_plain and value else toml(value)
    if isinstance(value, Real) and not isinstance(value, bool):  # NumPy's too
        return repr(int(value) if isinstance(value, Integral) else float(value))
    return toml(value)


def split_values(text: str) -> list[str]:
    """The values of a text with commas between; a comma within brackets or quotes belongs to a value."""
    values, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        if character == "," and not quote and depth == 0:
            values.append("")
        else:
            values[-1] += character
    return values


def _in_a_name(value: str) -> str:
    return "empty" if value in ('""', "''") else UNUSUAL.sub("_", value)


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each setting's name, or all of it where two would be the same."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)}
