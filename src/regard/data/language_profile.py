"""Two languages told apart by their character trigrams (Cavnar and Trenkle 1994, as naive Bayes)."""

from collections.abc import Sequence

import numpy as np

from regard.data.character_counts import code_points

BITS = 16  # of a hashed trigram
SMOOTHING = 0.1  # added to each count
MOST = 3.0  # nats that one trigram may be worth
SURE = 0.25  # nats a trigram, and
ENOUGH = 8.0  # nats a line: what it takes to say which language a line is in
_FACTORS = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], np.uint32)


class LanguageProfiles:
    """The trigrams of the two sides of a corpus, learned from examples of them."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        one, other = (
            np.bincount(_trigrams(side)[0], minlength=1 << BITS) + SMOOTHING for side in (sources, targets)
        )
        ratio = np.log(one / one.sum()) - np.log(other / other.sum())
        self._weights = np.clip(ratio, -MOST, MOST)

    def sides(self, texts: Sequence[str]) -> np.ndarray:
        """For each text 1 if it is surely in the source's language, -1 if in the target's, 0 if unsure."""
        hashes, lines = _trigrams(texts)
        counts = np.bincount(lines, minlength=len(texts))
        sums = np.bincount(lines, weights=self._weights[hashes], minlength=len(texts))
        sure = (np.abs(sums) > ENOUGH) & (np.abs(sums) > SURE * counts)
        return np.where(sure, np.sign(sums), 0).astype(int)


def _trigrams(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all trigrams, borders of lines among them, and the number of the text each is of."""
    points = code_points("".join(f"\n{text.lower()}\n" for text in texts))
    if len(points) < 3:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    breaks = np.cumsum(points == 10)  # two a text
    numbers = (breaks - 1) // 2
    parts = [points[i : len(points) - 2 + i] * factor for i, factor in enumerate(_FACTORS)]
    hashes = (parts[0] ^ parts[1] ^ parts[2]) >> np.uint32(32 - BITS)
    inside = numbers[:-2] == numbers[2:]
    return hashes[inside].astype(np.int64), numbers[:-2][inside]
