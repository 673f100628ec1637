"""Identifies one of two languages by character trigrams (Cavnar and Trenkle 1994, naive Bayes)."""

from collections.abc import Sequence

import numpy as np

from regard.data.character_counts import code_points

HASH_BITS = 16  # of a hashed trigram
SMOOTHING = 0.1  # added to each count
MAX_WEIGHT = 3.0  # the largest weight of one trigram, in nats
NATS_PER_TRIGRAM = 0.25  # a decision needs this evidence per trigram
NATS_PER_LINE = 8.0  # and this per line
_FACTORS = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], np.uint32)


class LanguageProfiles:
    """Trigram weights of the two languages of a corpus, learned from examples of both sides."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        one, other = (
            np.bincount(_trigrams(side)[0], minlength=1 << HASH_BITS) + SMOOTHING
            for side in (sources, targets)
        )
        ratio = np.log(one / one.sum()) - np.log(other / other.sum())
        self._weights = np.clip(ratio, -MAX_WEIGHT, MAX_WEIGHT)

    def sides(self, texts: Sequence[str]) -> np.ndarray:
        """For each text 1 if it is clearly in the source language, -1 if in the target language, else 0."""
        hashes, lines = _trigrams(texts)
        counts = np.bincount(lines, minlength=len(texts))
        sums = np.bincount(lines, weights=self._weights[hashes], minlength=len(texts))
        sure = (np.abs(sums) > NATS_PER_LINE) & (np.abs(sums) > NATS_PER_TRIGRAM * counts)
        return np.where(sure, np.sign(sums), 0).astype(int)


def _trigrams(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all trigrams, including line borders, and the index of the text of each."""
    points = code_points("".join(f"\n{text.lower()}\n" for text in texts))
    if len(points) < 3:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    breaks = np.cumsum(points == 10)  # two per text
    numbers = (breaks - 1) // 2
    parts = [points[i : len(points) - 2 + i] * factor for i, factor in enumerate(_FACTORS)]
    hashes = (parts[0] ^ parts[1] ^ parts[2]) >> np.uint32(32 - HASH_BITS)
    inside = numbers[:-2] == numbers[2:]
    return hashes[inside].astype(np.int64), numbers[:-2][inside]
