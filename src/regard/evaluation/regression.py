"""Regression metrics: mean absolute error and Pearson correlation, with intervals."""

from collections.abc import Callable, Sequence

import numpy as np

from regard.evaluation.classification import SEED, central_interval

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


def pairs_interval(
    predictions: Values, labels: Values, metric: Callable[[Values, Values], float], resamples: int = 1000
) -> tuple[float, float]:
    """The 95 % bootstrap interval of a metric, resampling predictions with their labels (Efron 1979)."""
    first, second = np.asarray(predictions), np.asarray(labels)
    rng = np.random.Generator(np.random.PCG64(SEED))
    chosen = (rng.integers(0, len(first), len(first)) for _ in range(resamples))
    return central_interval(np.array([metric(first[each], second[each]) for each in chosen]))
