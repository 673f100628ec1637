"""Types and shapes are checked at the first calls that each test makes of each function.

A check takes longer than most of the functions it checks, and a loop of a thousand steps gives the same
shapes a thousand times. `--jaxtyping-packages=regard,beartype.beartype` checks every call.
"""

import functools
import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any

from beartype import beartype

FIRST = 5  # of each function in each test

_calls: dict[Callable[..., Any], int] = {}
_unchecked: set[Any] = set()


def first_calls(signature: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker for jaxtyping's import hook: beartype, until `FIRST` calls were checked.

    jaxtyping gives it a function that does nothing, with the name and the annotations of the one to check.
    """
    checker: list[Callable[..., Any]] = []  # made at the first call: a test file calls few of 7,000 functions

    @functools.wraps(signature)
    def check(*given: Any, **named: Any) -> Any:
        count = _calls[check] = _calls.get(check, 0) + 1
        if count <= FIRST:
            if not checker:
                checker.append(beartype(signature))
            return checker[0](*given, **named)
        _stop_checks(signature)
        return None

    return check


def _stop_checks(signature: Callable[..., Any]) -> None:
    """jaxtyping calls a function that has `__no_type_check__` directly."""
    try:
        function = operator.attrgetter(signature.__qualname__)(sys.modules[signature.__module__])
    except AttributeError:  # defined inside another function
        return
    function = inspect.unwrap(getattr(function, "fget", None) or function)
    if inspect.isfunction(function):
        function.__no_type_check__ = True
        _unchecked.add(function)


def begin_test() -> None:
    """Checks the first calls of each function again."""
    _calls.clear()
    while _unchecked:
        del _unchecked.pop().__no_type_check__
