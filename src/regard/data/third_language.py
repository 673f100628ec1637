"""Finds lines in a language that is not that of the others, by character trigrams of the lines alone.

The lines whose trigrams are rarest are a first guess at another language. A line stays in it while the others
in it explain the line better than the rest does: lines of a language support each other, names and numbers
do not.
"""

from collections.abc import Sequence

import numpy as np

from regard.data.language_profile import HASH_BITS, MAX_WEIGHT, ROUNDS, SMOOTHING, Trigrams, is_sure

MAX_LINES = 20_000  # that are learned from: two seconds
MIN_LINES = 10  # of another language
MIN_TRIGRAMS = 20  # of a line of the first guess
# by how many deviations the mean log-probability of its trigrams is below the median of all lines: few lines
# of another language are found by the first, a tenth of all lines by the second
DEVIATIONS = 3.0, 2.0
# evidence per trigram, the mean of all lines found: other languages had 0.9 or more in Tatoeba, Multi30k and
# newstest, and other topics of the same language 0.6 or less
MIN_EVIDENCE = 0.75


class ThirdLanguage:
    """The trigram weights of another language in the lines of one, learned from these lines.

    Of 3,000 lines it finds nearly all of a language in 5 to 10 % of them, of 20,000 in 0.3 to 20 %; fewer
    look like names and other topics.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        texts = list(dict.fromkeys(texts))  # a line that is repeated is no language
        lines = Trigrams(texts[:: -(-len(texts) // MAX_LINES) or 1])
        guesses = (_learned(lines, each) for each in DEVIATIONS)
        self._weights = next((weights for weights in guesses if weights is not None), None)

    def evidence(self, texts: Sequence[str]) -> np.ndarray:
        """The evidence for the other language of each text, in nats, where it is clearly in it; else 0."""
        if self._weights is None:
            return np.zeros(len(texts))
        lines = Trigrams(texts)
        sums = lines.sums(self._weights)
        return np.where(is_sure(sums, lines.lengths), sums, 0.0)


def _learned(lines: Trigrams, deviations: float) -> np.ndarray | None:
    """The weights of another language in these lines; None if there is none."""
    own, everything = lines.repeats, lines.counts(np.ones(lines.texts, bool))
    total = int(everything.sum())
    found, is_guess, sums = _rarest(lines, own, everything, deviations), True, np.zeros(lines.texts)
    for _ in range(2 * ROUNDS):
        before, inside = found, lines.counts(found)
        # without the trigrams of the line itself
        others = inside[lines.hashes] - own * found[lines.lines]
        rest = (everything - inside)[lines.hashes] - own * ~found[lines.lines]
        sums = lines.sums_of(_evidence(others, rest, int(inside.sum()), total))
        found = sums > 0 if is_guess else is_sure(sums, lines.lengths)
        if 2 * np.count_nonzero(found) > lines.texts:
            found = ~found  # the other language is that of fewer lines
        if np.array_equal(before, found):
            if not is_guess:
                break
            is_guess = False
    if np.count_nonzero(found) < MIN_LINES or (sums[found] / lines.lengths[found]).mean() < MIN_EVIDENCE:
        return None
    inside = lines.counts(found)
    return _evidence(inside, everything - inside, int(inside.sum()), total)


def _rarest(lines: Trigrams, own: np.ndarray, everything: np.ndarray, deviations: float) -> np.ndarray:
    """The lines with far rarer trigrams than others have, by their counts in all other lines."""
    lengths = lines.lengths
    long = lengths >= MIN_TRIGRAMS
    if not long.any():
        return long
    means = lines.sums_of(np.log(everything[lines.hashes] - own + SMOOTHING)) / np.maximum(lengths, 1)
    median = np.median(means[long])
    spread = 1.4826 * np.median(np.abs(means[long] - median))
    return long & (means < median - deviations * spread)


def _evidence(inside: np.ndarray, rest: np.ndarray, trigrams_inside: int, trigrams: int) -> np.ndarray:
    """The evidence of trigrams for the other language, in nats, by their counts in it and in the rest."""
    smoothing = SMOOTHING * (1 << HASH_BITS)
    one = np.log((inside + SMOOTHING) / (trigrams_inside + smoothing))
    other = np.log((rest + SMOOTHING) / (trigrams - trigrams_inside + smoothing))
    return np.clip(one - other, -MAX_WEIGHT, MAX_WEIGHT)
