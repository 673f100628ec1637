"""Minimum Bayes risk: the sample most similar to the others (Eikema & Aziz 2020)."""

from collections import Counter
from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]  # (a text, a possible reference) -> its quality


def expected_utilities(texts: Sequence[str], utility: Utility) -> list[float]:
    """The mean utility of each text with each sample as the reference, itself included."""
    counts = Counter(texts)
    means = {
        text: sum(count * utility(text, other) for other, count in counts.items()) / len(texts)
        for text in counts
    }
    return [means[text] for text in texts]


def minimum_risk(texts: Sequence[str], utility: Utility, count: int) -> list[tuple[int, float]]:
    """The places and expected utilities of the `count` best texts, best first, no text twice.

    Of equally good texts the earlier comes first.
    """
    means = expected_utilities(texts, utility)
    order = sorted(range(len(texts)), key=lambda place: (-means[place], place))
    first = {texts[place]: place for place in reversed(range(len(texts)))}
    return [(place, means[place]) for place in order if first[texts[place]] == place][:count]
