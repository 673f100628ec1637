"""Values that pages show: looked up in a file of results, or in the code.

A lookup is a path, or two of them: the operators `+ - * /` of two values, `A against B` of two rows;
`A ~ PATTERN` is the group of a pattern in a text. After the last colon stands how a number is written, as
for `format`: `,.0f`.
"""

import dataclasses
import importlib
import inspect
import json
import re
import statistics
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/results"
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    " + ": lambda first, second: first + second,
    " - ": lambda first, second: first - second,
    " * ": lambda first, second: first * second,
    " / ": lambda first, second: first / second,
}
EXTREMES: dict[str, Callable[..., Any]] = {"least": min, "most": max}
NAME = ("name", "kind")  # the column of a table that names its rows


class LookupFailed(Exception):
    """What is not there."""


def results_of(name: str, table: str | None = None) -> Mapping[str, Any]:
    """A file of `benchmarks/results`; of a benchmark with tables the rows, by name, of the table named so.

    `table` is the beginning of its title. A row that has the name of an earlier one is `NAME, again`.

    Raises:
        LookupFailed: there is no such file, or not one such table.
    """
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise LookupFailed(f"there is no {path.relative_to(ROOT)}")
    found = json.loads(path.read_text("utf-8"))
    if table is None:
        return found
    tables = [each for each in found["tables"] if each["title"].startswith(table)]
    if len(tables) != 1:
        raise LookupFailed(f"{len(tables)} tables of {name} begin with {table!r}, not 1")
    rows: dict[str, Any] = {"notes": "; ".join(tables[0]["notes"])}
    for row in tables[0]["rows"]:
        label = next(str(row[key]) for key in NAME if key in row)
        rows[f"{label}, again" if label in rows else label] = row
    return rows


def settings_of(recipe: str) -> Mapping[str, Any]:
    """The settings of a published recipe.

    Raises:
        LookupFailed: there is no such recipe.
    """
    path = ROOT / f"recipes/{recipe}.toml"
    if not path.exists():
        raise LookupFailed(f"there is no {path.relative_to(ROOT)}")
    return tomllib.loads(path.read_text("utf-8"))


def looked_up(root: Any, field: str) -> str:
    """What a field of a template stands for: `training/updates:,` of a file, `MOST_ROWS:,` of a module.

    Raises:
        LookupFailed: the path leads nowhere.
    """
    path, _, form = field.rpartition(":") if re.search(r":[+,.\w%]*$", field) else (field, "", "")
    value = evaluated(root, path)
    if isinstance(value, str) and not form:
        return value
    if value is None and form:
        raise LookupFailed(f"{path!r} was not measured")
    return re.sub(r"(?<=\d)%$", " %", format(value, form))  # "51 %", as the pages write it


def evaluated(root: Any, path: str) -> Any:
    """The value of a lookup without its format."""
    first, matched, pattern = path.partition(" ~ ")
    if matched:
        return group_of(found(root, first), pattern)
    first, against, second = path.partition(" against ")
    if against:
        return rate_against(found(root, first), found(root, second))
    for operator, applied in OPERATORS.items():
        first, there, second = path.rpartition(operator)
        if there:
            return applied(evaluated(root, first), evaluated(root, second))
    return float(path) if re.fullmatch(r"[\d.]+", path) else found(root, path)


def group_of(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise LookupFailed(f"{pattern!r} is not in {text!r}")
    return match[1]


def rate_against(row: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """How much faster a row was than another: the median over rounds, each of which did the same work."""
    times = zip(row["seconds"], other["seconds"], strict=True)
    return statistics.median(theirs / own for own, theirs in times)


def found(root: Any, path: str) -> Any:
    """The value at a path; `least A | B/column` is the least of these rows, `most` the greatest."""
    word, _, rest = path.partition(" ")
    if word in EXTREMES:
        rows, _, column = rest.rpartition("/")
        return EXTREMES[word](found(root, f"{row}/{column}") for row in rows.split(" | "))
    value = root
    for key in path.split("/" if isinstance(root, Mapping) else "."):
        value = step(value, key, path)
    return value


def step(value: Any, key: str, path: str) -> Any:
    """What `value` has under `key`: an entry, an attribute, or the default of a field or parameter.

    Raises:
        LookupFailed: it has no such thing.
    """
    if isinstance(value, Mapping):
        if key in value:
            return value[key]
    elif isinstance(value, type) and dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name == key:
                return field.default
    elif inspect.isfunction(value) and key in inspect.signature(value).parameters:
        return inspect.signature(value).parameters[key].default
    if not isinstance(value, Mapping) and hasattr(value, key):
        return getattr(value, key)
    raise LookupFailed(f"{path!r} leads nowhere: there is no {key!r}")


def module(name: str) -> Any:
    """The module whose constants and defaults are looked up."""
    return importlib.import_module(name)
