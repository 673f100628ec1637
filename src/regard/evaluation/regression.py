"""Regression metrics: errors, R2, correlations of values and of ranks, with intervals."""

from collections.abc import Callable, Sequence

import numpy as np

from regard.evaluation.classification import SEED, central_interval

Values = Sequence[float] | np.ndarray


def mean_absolute_error(predictions: Values, labels: Values) -> float:
    """The mean absolute difference between predictions and labels, in their unit."""
    return float(np.abs(np.asarray(predictions) - np.asarray(labels)).mean())


def root_mean_squared_error(predictions: Values, labels: Values) -> float:
    """The root of the mean squared difference between predictions and labels, in their unit."""
    return float(np.sqrt(np.square(np.asarray(predictions) - np.asarray(labels)).mean()))


def determination(predictions: Values, labels: Values) -> float:
    """R2, the coefficient of determination: 0 if always the mean label is predicted; 0 if it is constant."""
    true = np.asarray(labels, np.float64)
    total = float(np.square(true - true.mean()).sum())
    return 1 - float(np.square(np.asarray(predictions) - true).sum()) / total if total else 0.0


def rank_correlation(predictions: Values, labels: Values) -> float:
    """Spearman's rho: Pearson's r of ranks, equal values with their mean rank; 0 if either is constant."""
    return correlation(_ranks(predictions), _ranks(labels))


def _ranks(values: Values) -> np.ndarray:
    """The rank of each value, from 1; equal values have the mean of their ranks."""
    _, places, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


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
