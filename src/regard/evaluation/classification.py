"""How well classes are told apart: accuracy, precision, recall, F1, and which are taken for which.

Everything is computed from one table, `confusion`; results are fractions. How sure an accuracy is:
`evaluation/proportion.py` where the answers are independent, `bootstrap_interval` where they come in
groups, such as the words of a sentence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

SEED = 12345  # of all resampling; sacreBLEU's
Table = Int[np.ndarray, "classes classes"]


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Of one class. What is 0/0, of a class never said or never true, is 0."""

    precision: float  # of the times it is said, how often that is right
    recall: float  # of the times it is true, how often it is said
    f1: float  # their harmonic mean
    support: int  # how often it is true


def confusion(truth: Sequence[int] | np.ndarray, said: Sequence[int] | np.ndarray, num_classes: int) -> Table:
    """table[i, j]: how often class i is taken for class j."""
    pairs = np.asarray(truth, np.int64) * num_classes + np.asarray(said, np.int64)
    return np.bincount(pairs, minlength=num_classes * num_classes).reshape(num_classes, num_classes)


def accuracy(table: Table) -> float:
    """The share of answers that are right."""
    return float(np.trace(table) / table.sum())


def class_scores(table: Table) -> list[ClassScores]:
    """Precision, recall and F1 of each class."""
    right, said, true = np.diag(table), table.sum(axis=0), table.sum(axis=1)
    return [
        ClassScores(
            precision=_share(right[i], said[i]),
            recall=_share(right[i], true[i]),
            f1=_share(2 * right[i], said[i] + true[i]),
            support=int(true[i]),
        )
        for i in range(len(table))
    ]


def macro_f1(table: Table) -> float:
    """The mean F1 of the classes; one that is neither said nor true does not count."""
    right, counts = np.diag(table), table.sum(axis=0) + table.sum(axis=1)
    present = counts > 0
    return float((2 * right[present] / counts[present]).mean())


def table_interval(
    table: Table, measure: Callable[[Table], float], resamples: int = 1000
) -> tuple[float, float]:
    """The 95 % interval of a measure, by resampling the answers with replacement (Efron 1979)."""
    draw = np.random.Generator(np.random.PCG64(SEED))
    flat = table.ravel()
    tables = draw.multinomial(flat.sum(), flat / flat.sum(), size=resamples)
    values = [measure(each.reshape(table.shape)) for each in tables]
    return _middle(np.array(values))


def bootstrap_interval(right: Sequence[int], of: Sequence[int], resamples: int = 1000) -> tuple[float, float]:
    """The 95 % interval of sum(right) / sum(of), by resampling groups: their answers hang together.

    Groups of nothing count as one of it, where no others are drawn.
    """
    hits, totals = np.asarray(right), np.asarray(of)
    draw = np.random.Generator(np.random.PCG64(SEED))
    values = np.empty(resamples)
    for number in range(resamples):
        chosen = draw.integers(0, len(hits), len(hits))
        values[number] = hits[chosen].sum() / max(totals[chosen].sum(), 1)
    return _middle(values)


def _middle(values: Float[np.ndarray, " resamples"]) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _share(part: np.integer, whole: np.integer) -> float:
    return float(part / whole) if whole else 0.0
