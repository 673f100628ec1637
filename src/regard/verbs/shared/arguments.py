"""Checking the arguments of the Python calls: their types and limits."""

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union

from regard.errors import UserError, did_you_mean
from regard.verbs.shared.limits import LIMITS, refuse_long_text
from regard.verbs.shared.texts import refuse_non_texts

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "True or False",
    str: "a str",
    Path: "a path",
    type(None): "None",
}


def checked(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`call` with its arguments checked against its annotations and `LIMITS` first.

    True is not a number, neither are NaN and infinity, and a str is not a list of str. NumPy integers become
    Python's.

    Raises:
        UserError: an argument has another type, or is out of range. DataError: a text is not a str.
    """
    signature = inspect.signature(call)

    @functools.wraps(call)
    def called(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        names = list(signature.parameters)
        positional = [_checked(signature, *each) for each in zip(names, arguments, strict=False)]
        others = {name: _checked(signature, name, value) for name, value in keywords.items()}
        return call(*positional, *arguments[len(positional) :], **others)  # pyright: ignore[reportCallIssue]

    called.__signature__ = signature  # type: ignore[attr-defined]  # read by inspect, unknown to the types
    return called


def _checked(signature: inspect.Signature, name: str, value: Any) -> Any:
    """The value as the parameter takes it. An unknown name is left to the call itself."""
    parameter = signature.parameters.get(name)
    if parameter is None or parameter.annotation in (inspect.Parameter.empty, Any):
        return value
    kinds = _kinds(parameter.annotation)
    if value is None and (type(None) in kinds or parameter.default is None):
        return None
    if isinstance(value, Integral) and not isinstance(value, bool) and {int, float} & {*kinds}:
        value = int(value)
    if not any(_fits(kind, value) for kind in kinds):
        _refuse(name, kinds, value)
    if isinstance(value, int | float) and not isinstance(value, bool) and name in LIMITS:
        LIMITS[name].refuse(name, value)
    if isinstance(value, str):
        refuse_long_text(name, value)
    return value


def _kinds(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return tuple(kind for each in typing.get_args(annotation) for kind in _kinds(each))
    return (annotation,)


def _fits(kind: Any, value: Any) -> bool:
    """True if a value has this type, or the type is unknown here."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is Mapping:
        return isinstance(value, Mapping)
    if isinstance(value, Mapping) and _holds_texts(kind):
        return False
    if origin is tuple or (inner and str in _kinds(inner[0])):
        return isinstance(value, Iterable) and _each_fits(inner[0], value, alone=origin is tuple)
    if kind is int:
        return type(value) is int
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
    if kind is bool:
        return type(value) is bool
    return not isinstance(kind, type) or isinstance(value, kind)


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _each_fits(kind: Any, values: Any, *, alone: bool) -> bool:
    """True if each item of a list or tuple fits; a str alone may stand for a tuple of one."""
    if isinstance(values, str | bytes):
        return alone and kind is str and isinstance(values, str)
    if isinstance(values, list | tuple):
        return all(any(_fits(each, value) for each in _kinds(kind)) for value in values)
    return not alone


def _holds_texts(kind: Any) -> bool:
    return typing.get_args(kind)[:1] == (str,)


def _refuse(name: str, kinds: tuple[Any, ...], value: Any) -> typing.NoReturn:
    if any(_holds_texts(kind) and typing.get_origin(kind) is not tuple for kind in kinds):
        refuse_non_texts(value)
    wanted = " or ".join(dict.fromkeys(_words(kind) for kind in kinds if kind is not type(None)))
    raise UserError(f"{name} must be {wanted}, not {_shown(value)}", _hint(name, kinds, value))


def _hint(name: str, kinds: tuple[Any, ...], value: Any) -> str:
    for kind in kinds:
        if typing.get_origin(kind) is Literal and isinstance(value, str):
            return did_you_mean(value, typing.get_args(kind))
    if isinstance(value, str) and {int, float} & {*kinds}:
        try:
            return f"write {name}={float(value):g}, without quotes"
        except ValueError:
            pass
    if name == "model" and hasattr(value, "named_modules"):
        return "give the folder, or what regard.load returned, with the tokeniser, and not its `.model`"
    if name == "changes":
        return (
            "for instance changes=Changes(heads={NAME: [0]}, layers=[NAME], tokens=[3]) of regard.verbs.look"
        )
    return f"help(regard) lists the calls, and the help of each says what {name} may be"


def _words(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin is Mapping:
        return "a dict"
    if inner and (origin is tuple or str in _kinds(inner[0])):
        return f"a list, each {' or '.join(_words(each) for each in _kinds(inner[0]))}"
    return WORDS.get(kind, f"a {getattr(kind, '__name__', str(kind))}")


def _shown(value: Any) -> str:
    text = repr(value)
    if "\n" in text:  # of a model: all its layers
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}... ({type(value).__name__})"
