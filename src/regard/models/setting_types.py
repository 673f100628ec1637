"""The types of a model's settings: values from a file that must fit their annotations."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from regard.errors import ConfigError, did_you_mean
from regard.layers.rotary_scaling import SCALINGS, RotaryScaling

UNIONS = (typing.Union, types.UnionType)
MAX_INTEGER = 2**62  # larger sizes overflow PyTorch's element counts
MAX_SIZES = {  # by prefix or suffix of the name: far above those of any known model
    "d_": 1_000_000,
    "head_dim": 1_000_000,
    "input_convolution": 10_000,
    "_size": 100_000_000,
    "_heads": 100_000,
    "_layers": 10_000,
    "max_positions": 100_000_000,
}


def _check_size(name: str, value: Any) -> None:
    """Raise a ConfigError if an integer is too large for any model, before it is used."""
    if type(value) is not int:
        return
    if not -MAX_INTEGER < value < MAX_INTEGER:
        bits = value.bit_length()
        raise ConfigError(f"{name} is an integer of {bits:,} bits", "a setting has at most 62 bits")
    for part, maximum in MAX_SIZES.items():
        if (name.startswith(part) or name.endswith(part)) and value > maximum:
            raise ConfigError(f"{name} = {value} is too large", f"{name} must be at most {maximum:,}")


@functools.cache
def plain_kinds(cls: type[Any]) -> dict[str, tuple[type, ...]]:
    """The types of settings that are numbers, texts or nothing; an integer may be one of NumPy."""
    found: dict[str, tuple[type, ...]] = {}
    for name, kind in typing.get_type_hints(cls).items():
        kinds = typing.get_args(kind) if typing.get_origin(kind) in UNIONS else (kind,)
        if set(kinds) <= {int, float, str, bool, type(None)}:
            found[name] = (*kinds, *([np.integer] if int in kinds else []))
    return {field.name: found[field.name] for field in dataclasses.fields(cls) if field.name in found}


def of_type(name: str, value: Any, kind: Any) -> Any:
    """`value`, if its type fits the annotation `kind`; an int becomes a float if needed."""
    _check_size(name, value)
    kinds = typing.get_args(kind) if typing.get_origin(kind) in UNIONS else (kind,)
    if isinstance(value, list | tuple) and (several := [each for each in kinds if _is_tuple(each)]):
        item = typing.get_args(several[0])[0]
        return tuple(of_type(f"{name}[{place}]", each, item) for place, each in enumerate(value))
    if RotaryScaling in kinds and (isinstance(value, Mapping | RotaryScaling)):
        return value if isinstance(value, RotaryScaling) else rotary_scaling_of(name, value)
    if isinstance(value, dict) and any(typing.get_origin(each) is dict for each in kinds):
        return value
    for each in kinds:
        if typing.get_origin(each) is Literal:
            if isinstance(value, str) and value in typing.get_args(each):
                return value
        elif type(value) is each:
            return value
    if float in kinds and type(value) is int:
        return float(value)
    literals = [each for each in kinds if typing.get_origin(each) is Literal]
    choices = [choice for each in literals for choice in typing.get_args(each)]
    if choices:
        choices += ["true", "false"] if bool in kinds else []
        raise ConfigError(f"{name} = {value!r} is unknown", did_you_mean(str(value), choices))
    wanted = " or ".join(type_name(each) for each in kinds)
    raise ConfigError(f"{name} = {value!r} has the wrong type", f"{name} must be of type {wanted}")


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def type_name(kind: Any) -> str:
    return "nothing" if kind is type(None) else "list" if _is_tuple(kind) else kind.__name__


def rotary_scaling_of(name: str, table: Mapping[str, Any]) -> RotaryScaling:
    """The scaling of a table with its `kind` and its settings."""
    kind = table.get("kind")
    if kind not in SCALINGS:
        raise ConfigError(f"{name}.kind = {kind!r} is unknown", did_you_mean(str(kind), SCALINGS))
    known = {field.name: field for field in dataclasses.fields(SCALINGS[kind]) if field.init}
    for each in table.keys() - known.keys() - {"kind"}:
        raise ConfigError(f"{name} of kind {kind!r} has no setting {each!r}", did_you_mean(each, known))
    for each, field in known.items():
        if field.default is dataclasses.MISSING and each not in table:
            raise ConfigError(f"{name} of kind {kind!r} needs {each!r}", f"give {each}")
    hints = typing.get_type_hints(SCALINGS[kind])
    settings = {
        each: of_type(f"{name}.{each}", value, hints[each]) for each, value in table.items() if each != "kind"
    }
    try:
        return SCALINGS[kind](**settings)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}", "use the settings of the model's publication") from error
