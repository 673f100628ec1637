"""An evenly spaced sample of a stream of pairs, in bounded memory."""

from regard.data.corpus import Pair

PAIRS = 20_000
CHARACTERS = 8_000_000


class LineSample:
    """Every n-th pair of a stream, with n as small as the memory allows: all of a small corpus.

    When there are twice as many as `PAIRS`, or too many characters, each second one is dropped.
    """

    def __init__(self, pairs: int = PAIRS, characters: int = CHARACTERS) -> None:
        self.pairs: list[Pair] = []
        self.every = 1
        self._seen = 0
        self._most, self._most_characters, self._characters = 2 * pairs, characters, 0

    def add(self, pair: Pair) -> None:
        self._seen += 1
        if (self._seen - 1) % self.every:
            return
        self.pairs.append(pair)
        self._characters += len(pair.source) + len(pair.target)
        if len(self.pairs) > self._most or (self._characters > self._most_characters and len(self.pairs) > 1):
            self.pairs = self.pairs[::2]
            self.every *= 2
            self._characters = sum(len(each.source) + len(each.target) for each in self.pairs)

    @property
    def scale(self) -> float:
        """How many pairs of the stream each of the sample stands for."""
        return self._seen / max(len(self.pairs), 1)
