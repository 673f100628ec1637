"""Misaligned files, found by the lengths of their lines: a translation of a long line is long.

After Gale and Church (1993): the logarithms of the lengths of a line and of its translation correlate.
Where they do not, or do better with a neighbour's translation, the files are not aligned there.
"""

import math
from array import array
from dataclasses import dataclass

import numpy as np

from regard.data.corpus import Pair

LONGEST = 8191  # characters; longer lines count as so long
LEVELS = bytes(1 + round(16 * math.log2(length + 1)) for length in range(LONGEST + 1))  # a byte a length
SHIFTS = (1, -1, 2, -2, 3, -3, 4, -4, 5, -5)
FEWEST = 50  # lines: of fewer nothing is said
RELATED = 0.3  # correlation: below it lengths tell nothing about alignment
UNRELATED = 0.1  # correlation over all lines and shifts: below it nothing is aligned
EVIDENCE = 40.0  # nats, and more for longer files: what a misaligned stretch must be worth
MOST = 3.0  # nats that one line may be worth
SHORTEST = 20  # lines of a stretch that is told


@dataclass(frozen=True, kw_only=True)
class Misalignment:
    """Lines `first` to `last` (from 1) of the source do not go with those lines of the target.

    `shift`: the target line that goes with source line n is n + shift; None where no shift fits.
    `to_the_end`: whether the stretch reaches the end of the files. `correlation`: of all lines as they are.
    """

    first: int
    last: int
    shift: int | None
    to_the_end: bool
    correlation: float

    @property
    def whole(self) -> bool:
        return self.first == 1 and self.to_the_end


class LineLengths:
    """The lengths of all lines of two files, a byte each."""

    def __init__(self) -> None:
        self._sides = array("B"), array("B")

    def add(self, pair: Pair) -> None:
        """Pairs come in the order of their lines; a line that was left out in between has no length."""
        for side, text in zip(self._sides, (pair.source, pair.target), strict=True):
            side.extend(bytes(pair.line - 1 - len(side)))
            side.append(LEVELS[min(len(text), LONGEST)])

    def misalignment(self) -> Misalignment | None:
        """The stretch of lines that is most clearly misaligned; None without one."""
        source, target = (np.frombuffer(side, np.uint8).astype(np.float64) for side in self._sides)
        if np.count_nonzero(source) < FEWEST or min(_spread(source), _spread(target)) < 1e-6:
            return None
        left, right = _standard(source), _standard(target)
        related = {shift: _correlations(left, right, shift) for shift in (0, *SHIFTS)}
        whole = _correlation(left, right)
        best = max(whole, *(float(np.quantile(each, 0.9)) for each in related.values()))
        if best < RELATED:
            nothing = max(_correlation(*_shifted(left, right, shift)) for shift in related) < UNRELATED
            end = len(left)
            return (
                Misalignment(first=1, last=end, shift=None, to_the_end=True, correlation=whole)
                if nothing
                else None
            )
        return _stretch(left, right, min(best, 0.95), whole)


def _stretch(left: np.ndarray, right: np.ndarray, related: float, whole: float) -> Misalignment | None:
    """The stretch that an explanation other than "line n goes with line n" gains most by."""
    aligned = _evidence(left, right, related)
    needed = EVIDENCE + 2 * math.log(len(left))
    found: tuple[float, int, int, int | None] | None = None
    for shift in (*SHIFTS, None):
        other = np.zeros_like(aligned)  # what two lengths that have nothing to do with each other are worth
        if shift is not None:
            start, stop = max(0, -shift), len(left) - max(0, shift)
            other[start:stop] = _evidence(left[start:stop], right[start + shift : stop + shift], related)
        gain, first, last = _best_run(other - aligned)
        if last - first >= SHORTEST and gain > needed and (found is None or gain > found[0]):
            found = gain, first, last, shift
    if found is None:
        return None
    _, first, last, shift = found
    to_the_end = last >= len(left) - SHORTEST
    return Misalignment(
        first=1 if first < SHORTEST else first + 1,
        last=len(left) if to_the_end else last,
        shift=shift,
        to_the_end=to_the_end,
        correlation=whole,
    )


def _evidence(left: np.ndarray, right: np.ndarray, related: float) -> np.ndarray:
    """Line by line, in nats: how much likelier two lengths are together than apart, if they are normal."""
    rest = 1 - related**2
    distance = related**2 * (left**2 + right**2) - 2 * related * left * right
    found = np.clip(-0.5 * math.log(rest) - distance / (2 * rest), -MOST, MOST)
    return np.where(np.isnan(found), 0.0, found)


def _best_run(gains: np.ndarray) -> tuple[float, int, int]:
    """The largest sum of neighbours, and where they begin and end (Bentley 1984)."""
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    start = int(np.argmin(sums[: end + 1]))
    return float(sums[end] - sums[start]), start, end


def _standard(lengths: np.ndarray) -> np.ndarray:
    """With mean 0 and deviation 1; NaN for lines that were left out."""
    known = lengths[lengths > 0]
    return np.where(lengths > 0, (lengths - known.mean()) / known.std(), np.nan)


def _spread(lengths: np.ndarray) -> float:
    known = lengths[lengths > 0]
    return float(known.std()) if len(known) else 0.0


def _shifted(left: np.ndarray, right: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    start, stop = max(0, -shift), len(left) - max(0, shift)
    return left[start:stop], right[start + shift : stop + shift]


def _correlations(left: np.ndarray, right: np.ndarray, shift: int) -> np.ndarray:
    """Of each of some ten to a thousand blocks of lines, and of all together."""
    one, other = _shifted(left, right, shift)
    blocks = min(1000, max(1, len(one) // 500))
    parts = zip(np.array_split(one, blocks), np.array_split(other, blocks), strict=True)
    return np.array([_correlation(*part) for part in parts])


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    both = ~(np.isnan(one) | np.isnan(other))
    one, other = one[both], other[both]
    if len(one) < 3 or min(one.std(), other.std()) < 1e-6:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])
