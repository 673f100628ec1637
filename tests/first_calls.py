"""Types and shapes are checked at the first calls that each test makes of each function.

A check takes longer than most of the functions it checks, and a loop of a thousand steps gives the same
shapes a thousand times. `--jaxtyping-packages=regard,beartype.beartype` checks every call.

Checks are made when they are needed: a test file calls few of 7,000 functions. Functions that are defined in
another one are counted together, by their place in the code: each call of the outer function makes a new one.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import beartype

FIRST = 2  # of each function in each test, as of an empty cache and of a filled one; five took 6% longer

_every_call = jaxtyping.jaxtyped
_counts: dict[tuple[str, str, int], "_Count"] = {}  # by the place in the code
_counted: list["_Count"] = []  # those with calls in this test
_checkers: dict[Any, Callable[..., Any]] = {}


class _Count:
    """How many calls of a function are still checked in this test."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = FIRST


def first_calls(signature: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker for jaxtyping's import hook: beartype, once for all functions with these annotations.

    jaxtyping gives it a function that does nothing, with the name and the annotations of the one to check.
    """
    code, annotations = signature.__code__, signature.__annotations__
    counts = (code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
    key = (signature.__module__, signature.__qualname__, code.co_varnames, counts, *annotations.items())
    try:
        return _checkers[key]
    except KeyError:
        return _checkers.setdefault(key, beartype(signature))
    except TypeError:  # an annotation that has no hash
        return beartype(signature)


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
            checked.append(_every_call(function, typechecker=typechecker))
        return checked[0](*given, **named)

    call.__first_checked__ = True
    return call


def begin_test() -> None:
    """Checks the first calls of each function again."""
    while _counted:
        _counted.pop().left = FIRST


jaxtyping.jaxtyped = _jaxtyped  # what the import hook writes before each function and class
