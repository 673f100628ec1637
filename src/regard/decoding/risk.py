"""Minimum Bayes risk: of many samples that which is most like the others (Eikema & Aziz 2020)."""

from collections import Counter
from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]  # a text, and one that might have been right -> how good it would be


def expected_utilities(texts: Sequence[str], utility: Utility) -> list[float]:
    """Of each text the mean utility, were each of all the samples the right one in turn, itself too."""
    counts = Counter(texts)
    means = {
        text: sum(count * utility(text, other) for other, count in counts.items()) / len(texts)
        for text in counts
    }
    return [means[text] for text in texts]


def minimum_risk(texts: Sequence[str], utility: Utility, count: int) -> list[tuple[int, float]]:
    """Places of the `count` texts of the greatest expected utility, no text twice, and that; the best first.

    Of equally good ones the first comes first.
    """
    means = expected_utilities(texts, utility)
    order = sorted(range(len(texts)), key=lambda place: (-means[place], place))
    first = {texts[place]: place for place in reversed(range(len(texts)))}
    return [(place, means[place]) for place in order if first[texts[place]] == place][:count]
