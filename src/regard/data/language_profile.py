"""Identifies one of two languages by character trigrams (Cavnar and Trenkle 1994, naive Bayes)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.character_counts import code_points

HASH_BITS = 16  # of a hashed trigram
SMOOTHING = 0.1  # added to each count
MAX_WEIGHT = 3.0  # the largest weight of one trigram, in nats
NATS_PER_TRIGRAM = 0.25  # a decision needs this evidence per trigram
NATS_PER_LINE = 8.0  # and this per line
ROUNDS = 10  # of learning without the pairs that are in other languages; most corpora need two
_FACTORS = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], np.uint32)


class Trigrams:
    """The hashed trigrams of some texts, line borders included, and the index of the text of each."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.hashes, self.lines = _trigrams(texts)
        self.texts = len(texts)

    @property
    def lengths(self) -> np.ndarray:
        """The number of trigrams of each text."""
        return np.bincount(self.lines, minlength=self.texts)

    def counts(self, chosen: np.ndarray) -> np.ndarray:
        """How often each hash is in the texts that the mask `chosen` has."""
        return np.bincount(self.hashes[chosen[self.lines]], minlength=1 << HASH_BITS)

    @property
    def repeats(self) -> np.ndarray:
        """For each trigram how often its text has it."""
        _, places, counts = np.unique(
            self.lines * (1 << HASH_BITS) + self.hashes, return_inverse=True, return_counts=True
        )
        return counts[places]

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """For each text the sum of the weights of its trigrams, which are given for each hash."""
        return self.sums_of(weights[self.hashes])

    def sums_of(self, values: np.ndarray) -> np.ndarray:
        """For each text the sum of values that are given for each trigram."""
        return np.bincount(self.lines, weights=values, minlength=self.texts)


@dataclass(frozen=True)
class PairLanguages:
    """The languages of some pairs, as masks of them.

    `in_order`: each side is clearly in its language. `swapped`: together both sides are clearly in the
    language of the other. `wrong_source`, `wrong_target`: only that side is clearly in the other's language.
    `against`: of source and target the evidence for the other's language, in nats.
    """

    in_order: np.ndarray
    swapped: np.ndarray
    wrong_source: np.ndarray
    wrong_target: np.ndarray
    against: tuple[np.ndarray, np.ndarray]


class LanguageProfiles:
    """Trigram weights of the two languages of a corpus, learned from pairs of it.

    They are learned again without pairs of other languages, and with swapped pairs the right way round, until
    no pair changes.

    Args:
        first: the number of pairs that are learned from at first, those at the beginning; None: all.
        swapped: a mask of the pairs that are learned from the other way round at first; None: none.
    """

    def __init__(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        first: int | None = None,
        swapped: np.ndarray | None = None,
    ) -> None:
        sides = Trigrams(sources), Trigrams(targets)
        kept = np.arange(len(sources)) < (first or len(sources))
        turned = np.zeros(len(sources), bool) if swapped is None else swapped
        for _ in range(ROUNDS):
            self._weights = trigram_weights(sides, kept & ~turned, kept & turned)
            found = self._languages(*sides)
            before = kept, turned
            kept, turned = ~(found.wrong_source | found.wrong_target), found.swapped
            if np.array_equal(before, (kept, turned)):
                break

    def languages(self, sources: Sequence[str], targets: Sequence[str]) -> PairLanguages:
        """The languages of these pairs."""
        return self._languages(Trigrams(sources), Trigrams(targets))

    def _languages(self, sources: Trigrams, targets: Trigrams) -> PairLanguages:
        source, target = sources.sums(self._weights), -targets.sums(self._weights)
        lengths = sources.lengths, targets.lengths
        wrong_source, wrong_target = is_sure(-source, lengths[0]), is_sure(-target, lengths[1])
        swapped = (source < 0) & (target < 0) & is_sure(-source - target, lengths[0] + lengths[1])
        return PairLanguages(
            in_order=is_sure(source, lengths[0]) & is_sure(target, lengths[1]),
            swapped=swapped,
            wrong_source=wrong_source & ~swapped,
            wrong_target=wrong_target & ~swapped,
            against=(-source, -target),
        )


def is_sure(evidence: np.ndarray, trigrams: np.ndarray) -> np.ndarray:
    """True where evidence for a language, in nats, is enough for a decision about so many trigrams."""
    return (evidence > NATS_PER_LINE) & (evidence > NATS_PER_TRIGRAM * trigrams)


def trigram_weights(
    sides: tuple[Trigrams, Trigrams], in_order: np.ndarray, swapped: np.ndarray
) -> np.ndarray:
    """The evidence of each trigram for the language of the sources, from pairs of either order."""
    one = sides[0].counts(in_order) + sides[1].counts(swapped) + SMOOTHING
    other = sides[1].counts(in_order) + sides[0].counts(swapped) + SMOOTHING
    return np.clip(np.log(one / one.sum()) - np.log(other / other.sum()), -MAX_WEIGHT, MAX_WEIGHT)


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
