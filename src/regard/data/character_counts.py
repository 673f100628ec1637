"""Character frequencies of one side of a corpus, counted in blocks of lines."""

import math
from collections.abc import Sequence

import numpy as np

from regard.data.scripts import Script, script_of_counts

CODE_POINTS = 0x110000
LONGEST_MEAN_WORD = 15.0  # characters between spaces; no language that uses spaces has more


def code_points(text: str) -> np.ndarray:
    """The code points of `text`, as uint32."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


class CharacterCounts:
    """The frequency of each character in the added lines. It takes 9 MB for any number of lines."""

    def __init__(self) -> None:
        self.lines = 0
        self._counts = np.zeros(CODE_POINTS, np.int64)

    def add(self, lines: Sequence[str]) -> None:
        """Counts the characters of these lines."""
        counts = np.bincount(code_points("".join(lines)))
        self._counts[: len(counts)] += counts
        self.lines += len(lines)

    @property
    def total(self) -> int:
        """The number of characters, spaces included."""
        return int(self._counts.sum())

    def covering(self, share: float) -> int:
        """The number of most frequent characters that cover `share` of the text (0 to 1)."""
        found = np.sort(self._counts[self._counts > 0])[::-1]
        return int(np.searchsorted(np.cumsum(found), share * found.sum())) + 1 if len(found) else 0

    @property
    def script(self) -> Script:
        """The script of the letters. Text whose words are too long for any language has no spaces."""
        counts = {chr(point): int(self._counts[point]) for point in np.flatnonzero(self._counts)}
        found = script_of_counts(counts)
        words = self.lines + sum(count for character, count in counts.items() if character.isspace())
        if found.spaces and sum(counts.values()) > LONGEST_MEAN_WORD * max(words, 1):
            return Script(script=found.script, share=found.share, spaces=False, shares=found.shares)
        return found

    def letter_shares(self) -> dict[str, float]:
        """The share of each letter and digit, in lower case, from 0 to 1."""
        found: dict[str, int] = {}
        for point in np.flatnonzero(self._counts):
            if (letter := chr(point).lower()).isalnum():
                found[letter] = found.get(letter, 0) + int(self._counts[point])
        total = sum(found.values())
        return {letter: count / total for letter, count in found.items()}


def shared_letters(one: CharacterCounts, other: CharacterCounts) -> float:
    """The overlap of the letter distributions of two sides, from 0 to 1."""
    others = other.letter_shares()
    return math.fsum(min(share, others.get(letter, 0.0)) for letter, share in one.letter_shares().items())
