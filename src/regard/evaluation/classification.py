"""Classification metrics from a confusion matrix: accuracy, macro-F1, intervals.

Results are fractions. For the interval of an accuracy use `evaluation/proportion.py` if the predictions are
independent, and `bootstrap_interval` if they come in groups, such as the words of a sentence.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

SEED = 12345  # of all resampling, as in sacreBLEU
ConfusionMatrix = Int[np.ndarray, "classes classes"]


def confusion(
    labels: Sequence[int] | np.ndarray, predictions: Sequence[int] | np.ndarray, num_classes: int
) -> ConfusionMatrix:
    """The confusion matrix: table[i, j] is the number of examples of class i with prediction j."""
    pairs = np.asarray(labels, np.int64) * num_classes + np.asarray(predictions, np.int64)
    return np.bincount(pairs, minlength=num_classes * num_classes).reshape(num_classes, num_classes)


def accuracy(table: ConfusionMatrix) -> float:
    """The share of predictions that are right."""
    return float(np.trace(table) / table.sum())


def macro_f1(table: ConfusionMatrix) -> float:
    """The mean F1 of the classes, without classes that are neither predicted nor true."""
    right, counts = np.diag(table), table.sum(axis=0) + table.sum(axis=1)
    present = counts > 0
    return float((2 * right[present] / counts[present]).mean())


def table_interval(
    table: ConfusionMatrix, measure: Callable[[ConfusionMatrix], float], resamples: int = 1000
) -> tuple[float, float]:
    """The 95 % bootstrap interval of a measure, resampling examples with replacement (Efron 1979)."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    flat = table.ravel()
    tables = rng.multinomial(flat.sum(), flat / flat.sum(), size=resamples)
    values = [measure(each.reshape(table.shape)) for each in tables]
    return central_interval(np.array(values))


def bootstrap_interval(
    right: Sequence[int] | Sequence[float], of: Sequence[int], resamples: int = 1000
) -> tuple[float, float]:
    """The 95 % bootstrap interval of sum(right) / sum(of), resampling groups of dependent predictions.

    A resample of empty groups only has the total 1.
    """
    hits, totals = np.asarray(right), np.asarray(of)
    rng = np.random.Generator(np.random.PCG64(SEED))
    values = np.empty(resamples)
    for number in range(resamples):
        chosen = rng.integers(0, len(hits), len(hits))
        values[number] = hits[chosen].sum() / max(totals[chosen].sum(), 1)
    return central_interval(values)


def central_interval(values: Float[np.ndarray, " resamples"]) -> tuple[float, float]:
    """The central 95 % of the values."""
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)
