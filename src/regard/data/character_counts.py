"""Characters of a side of a corpus: how often each stands there, counted in blocks of lines."""

import math
from collections.abc import Sequence

import numpy as np

from regard.data.scripts import Script, writing_of_counts

CODE_POINTS = 0x110000
LONGEST_MEAN_WORD = 15.0  # characters between spaces; no language that writes spaces has more


def code_points(text: str) -> np.ndarray:
    """The characters of `text` as numbers, uint32."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


class CharacterCounts:
    """How often each character stands in the lines that were added; 9 MB, whatever their number."""

    def __init__(self) -> None:
        self.lines = 0
        self._counts = np.zeros(CODE_POINTS, np.int64)

    def add(self, lines: Sequence[str]) -> None:
        counts = np.bincount(code_points("".join(lines)))
        self._counts[: len(counts)] += counts
        self.lines += len(lines)

    @property
    def total(self) -> int:
        """Of all characters, spaces among them."""
        return int(self._counts.sum())

    @property
    def distinct(self) -> int:
        return int(np.count_nonzero(self._counts))

    def covering(self, share: float) -> int:
        """How many of the most frequent characters make up `share` of the text (0 to 1)."""
        found = np.sort(self._counts[self._counts > 0])[::-1]
        return int(np.searchsorted(np.cumsum(found), share * found.sum())) + 1 if len(found) else 0

    @property
    def writing(self) -> Script:
        """By the letters; a side whose words are far too long for any language has no spaces either."""
        counts = {chr(point): int(self._counts[point]) for point in np.flatnonzero(self._counts)}
        found = writing_of_counts(counts)
        words = self.lines + sum(count for character, count in counts.items() if character.isspace())
        if found.spaces and sum(counts.values()) > LONGEST_MEAN_WORD * max(words, 1):
            return Script(script=found.script, share=found.share, spaces=False, shares=found.shares)
        return found

    def letters(self) -> dict[str, float]:
        """The share of each letter and digit, in lower case."""
        found: dict[str, int] = {}
        for point in np.flatnonzero(self._counts):
            if (letter := chr(point).lower()).isalnum():
                found[letter] = found.get(letter, 0) + int(self._counts[point])
        total = sum(found.values())
        return {letter: count / total for letter, count in found.items()}


def shared_letters(one: CharacterCounts, other: CharacterCounts) -> float:
    """How much of the letters of two sides is the same, from 0 to 1."""
    others = other.letters()
    return math.fsum(min(share, others.get(letter, 0.0)) for letter, share in one.letters().items())
