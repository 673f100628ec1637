"""Types and shapes are checked at the first calls that each test makes of each function.

A check takes longer than most of the functions it checks, and a loop of a thousand steps gives the same
shapes a thousand times. `--jaxtyping-packages=regard,beartype.beartype` checks every call.

Checks are made when they are needed: a test file calls few of 7,000 functions. Functions that are defined in
another one are counted together, by their place in the code: each call of the outer function makes a new one.

By itself jaxtyping checks arguments before the call and after it. Here beartype checks them once, and
jaxtyping takes part where shapes are compared: of 24 s of tests of layers and verbs 6 were checks, now 1.
"""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError

FIRST = 2  # of each function in each test, as of an empty cache and of a filled one; five took 6% longer

_every_call = jaxtyping.jaxtyped
_counts: dict[tuple[str, str, int], "_Count"] = {}  # by the place in the code
_counted: list["_Count"] = []  # those with calls in this test
_checked_once = beartype(conf=BeartypeConf(violation_type=TypeCheckError))


class _Count:
    """How many calls of a function are still checked in this test."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = FIRST


def first_calls(signature: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker for jaxtyping's import hook.

    jaxtyping gives it a function that does nothing, with the name and the annotations of the one to check.
    """
    return _checked_once(signature)


def _jaxtyped(function: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """jaxtyping's decorator; calls of what regard's modules define are checked only until `FIRST` were."""
    if function is None:
        return functools.partial(_jaxtyped, typechecker=typechecker)
    if inspect.isclass(function):
        if dataclasses.is_dataclass(function) and inspect.isfunction(function.__init__):
            function.__init__ = _first_checked(function.__init__, typechecker)
        return function
    return _first_checked(function, typechecker)


def _first_checked(function: Callable[..., Any], typechecker: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(function, "__first_checked__"):  # the __init__ of a base class
        return function
    place = (function.__module__, function.__qualname__, function.__code__.co_firstlineno)
    count = _counts.get(place) or _counts.setdefault(place, _Count())
    checked: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        if not count.left or jaxtyping.config.jaxtyping_disable:
            return function(*given, **named)
        if count.left == FIRST:
            _counted.append(count)
        count.left -= 1
        if not checked:
            checked.append(_with_checks(function, typechecker))
        return checked[0](*given, **named)

    call.__first_checked__ = True
    return call


def _with_checks(function: Callable[..., Any], typechecker: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a check of all its calls.

    Of a generator beartype would check what it yields too, and names in quotes it does not always know.
    """
    hints = function.__annotations__.values()
    if inspect.isgeneratorfunction(function) or any(isinstance(each, str) for each in hints):
        return _every_call(function, typechecker=typechecker)
    if not hints:
        return function
    checked = _checked_once(function)
    # jaxtyping compares the shapes of one call
    return _every_call(checked, typechecker=None) if any(map(_has_shapes, hints)) else checked


def _has_shapes(hint: Any) -> bool:
    if isinstance(hint, list):  # the parameters of a Callable
        return any(map(_has_shapes, hint))
    if inspect.isclass(hint) and issubclass(hint, AbstractArray):
        return True
    return any(map(_has_shapes, typing.get_args(hint)))


def begin_test() -> None:
    """Checks the first calls of each function again."""
    while _counted:
        _counted.pop().left = FIRST


jaxtyping.jaxtyped = _jaxtyped  # what the import hook writes before each function and class
