"""Checks of the arguments of layers: sizes are whole numbers, dropout is a share."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def refuse_other_sizes(*, least: int = 1, **sizes: Any) -> None:
    """Raise a ValueError if one of these sizes is no whole number from `least` on; None is not checked."""
    for name, size in sizes.items():
        if size is None:
            continue
        if not isinstance(size, Integral) or isinstance(size, bool):
            raise ValueError(f"{name} ({size!r}) must be a whole number")
        if size < least:
            raise ValueError(f"{name} ({size}) must be {least} or more")


def refuse_other_shares(**shares: Any) -> None:
    """Raise a ValueError if one of these shares, such as a dropout, is no number in [0, 1)."""
    for name, share in shares.items():
        if not _is_number(share) or not 0 <= share < 1:
            raise ValueError(f"{name} ({share!r}) must be a number, at least 0 and below 1")


def refuse_other_factors(**factors: Any) -> None:
    """Raise a ValueError if one of these factors is no number above 0; None is not checked."""
    for name, factor in factors.items():
        if factor is not None and not (_is_number(factor) and 0 < factor < math.inf):
            raise ValueError(f"{name} ({factor!r}) must be a number above 0")


def refuse_no_function(**functions: Any) -> None:
    """Raise a ValueError if one of these is no function: a name, or a class of which no object was made."""
    for name, function in functions.items():
        if not callable(function) or isinstance(function, type):
            raise ValueError(f"{name} ({function!r}) must be a function of a tensor")


def refuse_unknown(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise a ValueError if a choice is none of those that are known."""
    if value not in (known := [*known]):
        raise ValueError(f"{name} ({value!r}) must be one of {', '.join(map(repr, known))}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
