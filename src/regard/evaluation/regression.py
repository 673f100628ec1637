"""Regression metrics: mean absolute error and Pearson correlation."""

from collections.abc import Sequence

import numpy as np

Values = Sequence[float] | np.ndarray


def mean_absolute_error(predictions: Values, labels: Values) -> float:
    """The mean absolute difference between predictions and labels, in their unit."""
    return float(np.abs(np.asarray(predictions) - np.asarray(labels)).mean())


def correlation(predictions: Values, labels: Values) -> float:
    """Pearson's r of predictions and labels; 0 if either is constant."""
    first, second = (np.asarray(each, np.float64) for each in (predictions, labels))
    first, second = first - first.mean(), second - second.mean()
    norm = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / norm if norm else 0.0
