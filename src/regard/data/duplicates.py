"""Pairs that stand in a corpus more than once, found by digests in bounded memory."""

import hashlib
from dataclasses import dataclass

import numpy as np

from regard.data.corpus import Pair

KEPT = 2_000_000  # digests; beyond it a random half of all sources is left out, and counts are estimates


def digest(text: str) -> int:
    """64 bits of BLAKE2."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")


def pair_digest(pair: Pair) -> int:
    return digest(f"{pair.source}\0{pair.target}")


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """`pairs`: how many repeat an earlier one; `examples`: (line, earlier line) of some of them.

    `sources`: how many sources have several different targets; `most_targets`: the most that one has.
    """

    pairs: int
    examples: tuple[tuple[int, int], ...]
    sources: int
    most_targets: int
    exact: bool


class DuplicateCounter:
    """Digests of sources and pairs with their lines; sources are left out by their digest alone."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept, self._shift = kept, 0  # a source stays if the first `shift` bits of its digest are 0
        self._rows = np.empty((0, 3), np.uint64)
        self._new: list[tuple[int, int, int]] = []

    def add(self, source: int, pair: int, line: int) -> None:
        if not source >> (64 - self._shift):
            self._new.append((source, pair, line))
            if len(self._new) >= 100_000:
                self._merge()

    def _merge(self) -> None:
        if self._new:
            self._rows = np.concatenate([self._rows, np.array(self._new, np.uint64)])
            self._new = []
        while len(self._rows) > self._kept:
            self._shift += 1
            self._rows = self._rows[self._rows[:, 0] >> np.uint64(64 - self._shift) == 0]

    def found(self) -> Duplicates:
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
    """True where a sorted array has a value for the first time."""
    return np.concatenate([np.ones(min(len(values), 1), bool), values[1:] != values[:-1]])
