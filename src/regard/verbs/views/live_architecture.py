"""The architecture of a model for any lengths: numbers that depend on them as polynomials.

FLOPs, shapes and bytes are polynomials of degree two of the source length s and the target length t. They are
found from six passes, and kept only if they give the exact numbers of two others. A sequence of one token has
no mask and so other costs: these are left out.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from regard.inspection.architecture import architecture_of
from regard.inspection.passes import ForcedPass

LENGTHS = ((3, 4), (5, 4), (3, 7), (5, 7), (9, 4), (3, 11))
CHECKED = ((2, 2), (8, 6), (2, 13))


def architecture_by_length(pass_of: Callable[[int, int], ForcedPass]) -> Any | None:
    """The resource `architecture` with {"polynomial": [1, s, t, s^2, s t, t^2]} for each number that varies.

    `pass_of` makes a pass of s source ids and t target ids. None if a number is not such a polynomial.
    """
    found = [asdict(architecture_of(pass_of(*lengths))) for lengths in (*LENGTHS, *CHECKED)]
    inverse = np.linalg.inv(np.array([_terms(*lengths) for lengths in LENGTHS], float))
    try:
        return _joined(found, inverse)
    except ValueError:
        return None


def _terms(s: int, t: int) -> tuple[int, ...]:
    return 1, s, t, s * s, s * t, t * t


def _joined(values: list[Any], inverse: np.ndarray) -> Any:
    """The same tree as each of these, with polynomials where their numbers differ."""
    first = values[0]
    if isinstance(first, dict):
        return {name: _joined([each[name] for each in values], inverse) for name in first}
    if isinstance(first, list | tuple):
        if len({len(each) for each in values}) > 1:
            raise ValueError("a list has another length")
        return [_joined(list(each), inverse) for each in zip(*values, strict=True)]
    if all(each == first for each in values):
        return first
    factors = [round(float(each)) for each in inverse @ np.array(values[: len(LENGTHS)], float)]
    for lengths, value in zip((*LENGTHS, *CHECKED), values, strict=True):
        if sum(factor * term for factor, term in zip(factors, _terms(*lengths), strict=True)) != value:
            raise ValueError("a number is not a polynomial of the lengths")
    return {"polynomial": factors}
