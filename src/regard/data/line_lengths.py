"""Detects misaligned parallel files by their line lengths.

After Gale and Church (1993): the logarithms of the lengths of a line and of its translation correlate. If
they do not, or correlate better with a neighbouring line, the files are misaligned there.
"""

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from regard.data.corpus import Pair

MAX_LENGTH = 8191  # characters; longer lines are clipped
# length -> one byte
LEVELS = bytes(1 + round(16 * math.log2(length + 1)) for length in range(MAX_LENGTH + 1))
SHIFTS = (1, -1, 2, -2, 3, -3, 4, -4, 5, -5)
MIN_LINES = 50  # lines that a decision needs
RELATED = 0.3  # below this correlation, lengths say nothing about alignment
UNRELATED = 0.1  # below this correlation at every shift, nothing is aligned
NEEDED_EVIDENCE = 40.0  # nats in favour of a misaligned stretch before it is reported; more for longer files
MAX_EVIDENCE = 3.0  # the largest evidence of one line, in nats
MIN_STRETCH = 20  # lines of a stretch that is reported


@dataclass(frozen=True, kw_only=True)
class Misalignment:
    """A stretch of source lines that are not aligned with the target lines of the same numbers."""

    first: int  # line numbers, from 1
    last: int
    shift: int | None  # source line n belongs to target line n + shift; None: no shift fits
    to_the_end: bool  # True if the stretch reaches the end of the files
    correlation: float  # of the lengths of all lines, unshifted

    @property
    def whole(self) -> bool:
        """True if the stretch covers the whole files."""
        return self.first == 1 and self.to_the_end


class LineLengths:
    """The lengths of all lines of two files, one byte each."""

    def __init__(self) -> None:
        self._sides = array("B"), array("B")

    def add(self, pair: Pair) -> None:
        """Adds a pair. Pairs come in line order; skipped lines between them get no length."""
        for side, text in zip(self._sides, (pair.source, pair.target), strict=True):
            side.extend(bytes(pair.line - 1 - len(side)))
            side.append(LEVELS[min(len(text), MAX_LENGTH)])

    def misalignment(self, without: Iterable[int] = (), good: Iterable[int] = ()) -> Misalignment | None:
        """The stretch with the clearest misalignment; None if there is none.

        Args:
            without: the numbers of lines that are left out, as their lengths differ for other reasons.
            good: of lines that have no such reason, for the others are not known: a stretch must explain the
                lengths of those in it better, too.
        """
        source, target = (np.frombuffer(side, np.uint8).astype(np.float64) for side in self._sides)
        left_out, known = (np.array([line - 1 for line in lines], int) for lines in (without, good))
        source[left_out] = target[left_out] = 0.0
        if np.count_nonzero(source) < MIN_LINES or min(_deviation(source), _deviation(target)) < 1e-6:
            return None
        left, right = _standardised(source), _standardised(target)
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
        return _stretch(left, right, min(best, 0.95), whole, known)


def _stretch(
    left: np.ndarray, right: np.ndarray, related: float, whole: float, known: np.ndarray
) -> Misalignment | None:
    """The stretch that another alignment than "line n with line n" explains best; None if there is none."""
    aligned = _evidence(left, right, related)
    needed = NEEDED_EVIDENCE + 2 * math.log(len(left))
    found: tuple[float, int, int, int | None] | None = None
    for shift in (*SHIFTS, None):
        other = np.zeros_like(aligned)  # shift None: unrelated lengths have no evidence
        if shift is not None:
            start, stop = max(0, -shift), len(left) - max(0, shift)
            other[start:stop] = _evidence(left[start:stop], right[start + shift : stop + shift], related)
        gain, first, last = _best_run(other - aligned)
        inside = known[(known >= first) & (known < last)]
        if len(inside) and (other - aligned)[inside].sum() <= 0:
            continue
        if shift is None and _correlation(left[first:last], right[first:last]) >= RELATED:
            continue  # lengths of another spread, as of a list that is sorted
        if last - first >= MIN_STRETCH and gain > needed and (found is None or gain > found[0]):
            found = gain, first, last, shift
    if found is None:
        return None
    _, first, last, shift = found
    to_the_end = last >= len(left) - MIN_STRETCH
    return Misalignment(
        first=1 if first < MIN_STRETCH else first + 1,
        last=len(left) if to_the_end else last,
        shift=shift,
        to_the_end=to_the_end,
        correlation=whole,
    )


def _evidence(left: np.ndarray, right: np.ndarray, related: float) -> np.ndarray:
    """The log-likelihood ratio of each line, in nats: correlated against independent normal lengths."""
    rest = 1 - related**2
    distance = related**2 * (left**2 + right**2) - 2 * related * left * right
    found = np.clip(-0.5 * math.log(rest) - distance / (2 * rest), -MAX_EVIDENCE, MAX_EVIDENCE)
    return np.where(np.isnan(found), 0.0, found)


def _best_run(gains: np.ndarray) -> tuple[float, int, int]:
    """The contiguous run with the largest sum: the sum, its start and its end (Bentley 1984)."""
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    start = int(np.argmin(sums[: end + 1]))
    return float(sums[end] - sums[start]), start, end


def _standardised(lengths: np.ndarray) -> np.ndarray:
    """Lengths with mean 0 and standard deviation 1; NaN for skipped lines."""
    known = lengths[lengths > 0]
    return np.where(lengths > 0, (lengths - known.mean()) / known.std(), np.nan)


def _deviation(lengths: np.ndarray) -> float:
    """The standard deviation of the lengths of all lines that were not skipped."""
    known = lengths[lengths > 0]
    return float(known.std()) if len(known) else 0.0


def _shifted(left: np.ndarray, right: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    start, stop = max(0, -shift), len(left) - max(0, shift)
    return left[start:stop], right[start + shift : stop + shift]


def _correlations(left: np.ndarray, right: np.ndarray, shift: int) -> np.ndarray:
    """The correlations of the lengths in up to 1000 blocks of lines."""
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
