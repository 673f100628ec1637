"""Counts duplicate pairs of a corpus and sources with several targets, by digests in bounded memory."""

import hashlib
from array import array
from dataclasses import dataclass

import numpy as np

from regard.data.corpus import Pair

MAX_DIGESTS = (
    2_000_000  # digests in memory; beyond it half of the sources is dropped, and counts are estimates
)


def text_digest(text: str) -> int:
    """A 64-bit BLAKE2 digest."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")


def pair_digest(pair: Pair) -> int:
    """The digest of both sides of a pair."""
    return text_digest(f"{pair.source}\0{pair.target}")


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Counts of duplicates."""

    pairs: int  # that repeat an earlier pair
    examples: tuple[tuple[int, int], ...]  # (line, earlier line) of some of them
    sources: int  # with several different targets
    most_targets: int  # the largest number of different targets of one source
    exact: bool  # False: counts are estimated from a part of the sources


class DuplicateCounter:
    """Counts duplicates by the digests of sources and pairs.

    When there are too many, it keeps the sources whose digest begins with more and more zero bits.
    """

    def __init__(self) -> None:
        self._shift = 0  # a source is kept if the first `shift` bits of its digest are 0
        self._rows = np.empty((0, 3), np.uint64)
        self._pairs = array("Q")  # the digests of all pairs
        self._new: list[tuple[int, int, int]] = []

    def add(self, source: int, pair: int, line: int) -> None:
        """Adds the digests of a source and a pair, and their line number."""
        self._pairs.append(pair)
        if not source >> (64 - self._shift):
            self._new.append((source, pair, line))
            if len(self._new) >= 100_000:
                self._merge()

    def _merge(self) -> None:
        if self._new:
            self._rows = np.concatenate([self._rows, np.array(self._new, np.uint64)])
            self._new = []
        while len(self._rows) > MAX_DIGESTS:
            self._shift += 1
            self._rows = self._rows[self._rows[:, 0] >> np.uint64(64 - self._shift) == 0]

    def repeated(self) -> frozenset[int]:
        """The digests of all pairs that were added more than once."""
        digests, counts = np.unique(np.frombuffer(self._pairs, np.uint64), return_counts=True)
        return frozenset(digests[counts > 1].tolist())

    def found(self) -> Duplicates:
        """The duplicates among all added pairs."""
        self._merge()
        scale = 1 << self._shift
        order = np.lexsort((self._rows[:, 2], self._rows[:, 1]))  # by pair, then by line
        rows = self._rows[order]
        again = np.flatnonzero(rows[1:, 1] == rows[:-1, 1]) + 1
        first_places = np.concatenate([np.flatnonzero(_first(rows[:, 1])), [len(rows)]])
        examples = sorted(
            (int(rows[i, 2]), int(rows[first_places[np.searchsorted(first_places, i, "right") - 1], 2]))
            for i in again
        )[:3]
        different = rows[_first(rows[:, 1])]
        _, targets = np.unique(different[:, 0], return_counts=True)
        return Duplicates(
            pairs=len(again) * scale,
            examples=tuple(examples),
            sources=int(np.count_nonzero(targets > 1)) * scale,
            most_targets=int(targets.max(initial=0)),
            exact=scale == 1,
        )


def _first(values: np.ndarray) -> np.ndarray:
    """A mask that is True at the first occurrence of each value of a sorted array."""
    return np.concatenate([np.ones(min(len(values), 1), bool), values[1:] != values[:-1]])
