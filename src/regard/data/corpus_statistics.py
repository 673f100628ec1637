"""What one reading of a parallel corpus keeps of it: counts, digests and a sample, in bounded memory."""

from collections.abc import Iterable
from pathlib import Path

from regard.data.character_counts import CharacterCounts
from regard.data.corpus import Corpus, Pair
from regard.data.duplicates import DuplicateCounter, digest, pair_digest
from regard.data.line_lengths import LineLengths
from regard.data.line_sample import LineSample

BLOCK = 1000  # pairs whose characters are counted together
LETTERS = 12  # of a line that is the same on both sides: fewer may well be a name


class CorpusStatistics:
    """Give it every pair with `add`, then ask.

    For a million pairs some 200 MB at the most: two bytes of lengths a line, digests of up to
    `repeats.KEPT` pairs, a sample of `line_sample.PAIRS` and more.
    """

    def __init__(self, name: str, files: Iterable[Path] = ()) -> None:
        names = [path.name for path in files] or [name]
        self.files = names[0], names[-1]  # of the source and of the target
        self.pairs = 0
        self.copies = 0  # pairs whose sides are the same
        self.copied_lines: list[int] = []  # the first of them
        self.characters = CharacterCounts(), CharacterCounts()
        self.lengths, self.sample, self.repeats = LineLengths(), LineSample(), DuplicateCounter()
        self._block: list[Pair] = []

    @classmethod
    def of(cls, corpus: Corpus) -> "CorpusStatistics":
        """All of a corpus."""
        reading = cls(corpus.name, corpus.files)
        for pair in corpus:
            reading.add(pair)
        return reading.finished()

    def add(self, pair: Pair) -> tuple[int, int]:
        """Count a pair; the digests of its source and of itself."""
        self.pairs += 1
        self._block.append(pair)
        if len(self._block) == BLOCK:
            self.finished()
        if pair.source == pair.target and sum(map(str.isalpha, pair.source)) >= LETTERS:
            self.copies += 1
            if len(self.copied_lines) < 3:
                self.copied_lines.append(pair.line)
        self.lengths.add(pair)
        self.sample.add(pair)
        digests = digest(pair.source), pair_digest(pair)
        self.repeats.add(*digests, pair.line)
        return digests

    def finished(self) -> "CorpusStatistics":
        """Count the characters of the pairs that are still waiting."""
        for side, lines in zip(
            self.characters,
            ([pair.source for pair in self._block], [pair.target for pair in self._block]),
            strict=True,
        ):
            side.add(lines)
        self._block = []
        return self
