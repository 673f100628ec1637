"""Which pairs of a corpus of two languages have them in the other order, learned from the pairs alone."""

from collections.abc import Sequence

import numpy as np

from regard.data.language_profile import ROUNDS, Trigrams, is_sure, trigram_weights

MIN_PAIRS = 40  # to learn an order from one half and to test it with the other
MAX_PAIRS = 2000  # that are learned from
STARTS = 5  # pairs from which learning begins; the best result counts
# of the pairs that were not learned from and are in a clear order: those of two languages had 0.77 or more,
# 100 short ones of Tatoeba too; paraphrases, wrong spellings and neighbouring lines of a book 0.14 or less
MIN_CLEAR_SHARE = 0.6


def swapped_pairs(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray | None:
    """A mask of the pairs whose order is that of fewer; None if the sides do not look like two languages.

    One long pair gives the first weights of trigrams, and each pair the order that fits them better; weights
    and orders are learned again until no order changes. Weights of one half of the pairs must order most of
    the other half clearly, which those of one language do not.
    """
    chosen = np.random.default_rng(0).permutation(len(sources))[:MAX_PAIRS]
    if len(chosen) < MIN_PAIRS:
        return None
    halves = [_trigrams(sources, targets, chosen[part::2]) for part in (0, 1)]
    weights = _learned(halves[0])
    for learned, other in ((weights, halves[1]), (_learned(halves[1]), halves[0])):
        if _clear_share(learned, other) < MIN_CLEAR_SHARE:
            return None
    swapped = _order(weights, (Trigrams(sources), Trigrams(targets))) < 0
    return ~swapped if 2 * np.count_nonzero(swapped) > len(swapped) else swapped


def _trigrams(
    sources: Sequence[str], targets: Sequence[str], chosen: np.ndarray
) -> tuple[Trigrams, Trigrams]:
    places: list[int] = chosen.tolist()
    return Trigrams([sources[i] for i in places]), Trigrams([targets[i] for i in places])


def _learned(sides: tuple[Trigrams, Trigrams]) -> np.ndarray:
    """The weights that tell the two sides of these pairs apart best, whatever the order of each pair is."""
    longest = np.argsort(-np.minimum(sides[0].lengths, sides[1].lengths), kind="stable")[:STARTS]
    found = [_learned_from(sides, np.arange(sides[0].texts) == start) for start in longest]
    return max(found, key=lambda weights: float(np.abs(_order(weights, sides)).sum()))


def _learned_from(sides: tuple[Trigrams, Trigrams], first: np.ndarray) -> np.ndarray:
    weights, before = trigram_weights(sides, first, np.zeros_like(first)), None
    for _ in range(2 * ROUNDS):
        swapped = _order(weights, sides) < 0
        if before is not None and np.array_equal(before, swapped):
            break
        before, weights = swapped, trigram_weights(sides, ~swapped, swapped)
    return weights


def _order(weights: np.ndarray, sides: tuple[Trigrams, Trigrams]) -> np.ndarray:
    """The evidence of each pair for the one order, below 0 for the other, in nats."""
    return sides[0].sums(weights) - sides[1].sums(weights)


def _clear_share(weights: np.ndarray, sides: tuple[Trigrams, Trigrams]) -> float:
    """The share of the pairs whose sides are in different languages, with enough evidence."""
    source, target = sides[0].sums(weights), -sides[1].sums(weights)
    lengths = sides[0].lengths + sides[1].lengths
    clear = (np.sign(source) == np.sign(target)) & is_sure(np.abs(source + target), lengths)
    return float(clear.mean())
