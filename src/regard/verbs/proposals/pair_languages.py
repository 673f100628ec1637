"""Which pairs of a corpus are not in its two languages: swapped ones, and sides in another language."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from regard.data.corpus import Pair
from regard.data.language_profile import LanguageProfiles, PairLanguages
from regard.data.pair_order import swapped_pairs
from regard.data.third_language import ThirdLanguage

LanguageProblem = Literal["swapped", "language of the other side", "another language"]
# Profiles distinguish two languages if these shares of the pairs are clearly in them, in either order, and
# source in the first.
MIN_DISTINGUISHED_SHARE, MIN_IN_ORDER_SHARE = 0.7, 0.1
CLEAR_SHARE = 0.97  # of the pairs; no other profiles are tried then


class Languages:
    """The two languages of a corpus, and others in it, learned from a sample whose sides differ."""

    def __init__(self, sample: Sequence[Pair], profiles: LanguageProfiles) -> None:
        self._profiles = profiles
        sides = _sides(sample)
        found = profiles.languages(*sides)
        self._others = [
            ThirdLanguage([text for text, is_wrong in zip(side, wrong, strict=True) if not is_wrong])
            for side, wrong in zip(
                sides, (found.swapped | found.wrong_source, found.swapped | found.wrong_target), strict=True
            )
        ]

    def problems(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[LanguageProblem, int]]]:
        """The problems of each pair with the side that has them, 0 or 1; a swapped pair has no other."""
        sides = _sides(pairs)
        found = self._profiles.languages(*sides)
        others = [
            other.evidence(side) > np.maximum(against, 0)
            for other, side, against in zip(self._others, sides, found.against, strict=True)
        ]
        swapped = found.swapped & ~(others[0] | others[1])
        wrong = [found.wrong_source & ~others[0], found.wrong_target & ~others[1], *others]
        for is_swapped, marks in zip(swapped.tolist(), np.stack(wrong).T.tolist(), strict=True):
            if is_swapped:
                yield [("swapped", 0)]
                continue
            problems: list[tuple[LanguageProblem, int]] = []
            for side in (0, 1):
                if marks[side]:
                    problems.append(("language of the other side", side))
                elif marks[2 + side]:
                    problems.append(("another language", side))
            yield problems


def languages_of(sample: Sequence[Pair]) -> Languages | None:
    """The languages of a corpus; None if they do not differ, as in a task within one language.

    With many swapped pairs, the profiles of the sides are nearly the same; then the first tenth of the pairs,
    or the order of each pair, is learned from at first. The profiles that distinguish most pairs count.
    """
    pairs = [pair for pair in sample if pair.source != pair.target]
    sides = _sides(pairs)
    best: tuple[float, LanguageProfiles | None] = 0.0, None
    for profiles in _profiles(sides):
        share = _distinguished_share(profiles.languages(*sides))
        best = max(best, (share, profiles), key=lambda each: each[0])
        if share >= CLEAR_SHARE:
            break
    return None if best[1] is None else Languages(pairs, best[1])


def _profiles(sides: tuple[list[str], list[str]]) -> Iterator[LanguageProfiles]:
    """Profiles of the two languages, by what is learned from at first."""
    yield LanguageProfiles(*sides)
    yield LanguageProfiles(*sides, max(100, len(sides[0]) // 10))
    swapped = swapped_pairs(*sides)
    if swapped is not None:
        yield LanguageProfiles(*sides, swapped=swapped)


def _distinguished_share(found: PairLanguages) -> float:
    """The share of the pairs that are clearly in the two languages; 0 if it is small, or few are in order."""
    pairs = max(len(found.in_order), 1)
    in_order = int(np.count_nonzero(found.in_order))
    clear = in_order + int(np.count_nonzero(found.swapped))
    is_enough = clear >= MIN_DISTINGUISHED_SHARE * pairs and in_order > MIN_IN_ORDER_SHARE * pairs
    return clear / pairs if is_enough else 0.0


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    return [pair.source for pair in pairs], [pair.target for pair in pairs]
