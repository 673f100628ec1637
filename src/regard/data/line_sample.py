"""An evenly spaced sample of a stream of pairs, in bounded memory."""

from regard.data.corpus import Pair

SAMPLE_PAIRS = 20_000
SAMPLE_CHARACTERS = 8_000_000


class LineSample:
    """Every n-th pair of a stream, with the smallest n that fits into memory (1 for a small corpus).

    When there are more than twice `pairs` pairs or too many characters, every second pair is dropped.
    """

    def __init__(self, pairs: int = SAMPLE_PAIRS, characters: int = SAMPLE_CHARACTERS) -> None:
        self.pairs: list[Pair] = []
        self.every = 1
        self._count = 0
        self._max_pairs, self._max_characters, self._characters = 2 * pairs, characters, 0

    def add(self, pair: Pair) -> None:
        """Adds the next pair of the stream."""
        self._count += 1
        if (self._count - 1) % self.every:
            return
        self.pairs.append(pair)
        self._characters += len(pair.source) + len(pair.target)
        if len(self.pairs) > self._max_pairs or (
            self._characters > self._max_characters and len(self.pairs) > 1
        ):
            self.pairs = self.pairs[::2]
            self.every *= 2
            self._characters = sum(len(each.source) + len(each.target) for each in self.pairs)

    @property
    def scale(self) -> float:
        """The number of pairs of the stream for each pair of the sample."""
        return self._count / max(len(self.pairs), 1)
