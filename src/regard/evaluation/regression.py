"""How near numbers are to what they should be."""

from collections.abc import Sequence

import numpy as np

Numbers = Sequence[float] | np.ndarray


def mean_absolute_error(said: Numbers, truth: Numbers) -> float:
    """The mean distance, in the numbers' own unit."""
    return float(np.abs(np.asarray(said) - np.asarray(truth)).mean())


def correlation(said: Numbers, truth: Numbers) -> float:
    """Pearson's r: 1 where one is a rising line of the other; 0 where either is always the same."""
    first, second = (np.asarray(each, np.float64) for each in (said, truth))
    first, second = first - first.mean(), second - second.mean()
    norm = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / norm if norm else 0.0
