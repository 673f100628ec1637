"""Statistics of a parallel corpus from one pass: counts, digests and a sample, in bounded memory."""

from collections.abc import Iterable
from pathlib import Path

from regard.data.character_counts import CharacterCounts
from regard.data.corpus import Corpus, Pair
from regard.data.duplicates import DuplicateCounter, pair_digest, text_digest
from regard.data.line_lengths import LineLengths
from regard.data.line_sample import LineSample

BLOCK_PAIRS = 1000  # pairs whose characters are counted together


class CorpusStatistics:
    """Statistics of the pairs that `add` was given; they are complete after `finish`.

    A million pairs take at most about 200 MB: ten bytes of lengths and digest per pair, more of up to
    `duplicates.MAX_DIGESTS` pairs, and a sample of at most twice `line_sample.SAMPLE_PAIRS` pairs.
    """

    def __init__(self, name: str, files: Iterable[Path] = ()) -> None:
        names = [path.name for path in files] or [name]
        self.files = names[0], names[-1]  # the names of the source and the target file
        self.pairs = 0
        self.characters = CharacterCounts(), CharacterCounts()
        self.lengths, self.sample, self.duplicates = LineLengths(), LineSample(), DuplicateCounter()
        self._block: list[Pair] = []

    @classmethod
    def of(cls, corpus: Corpus) -> "CorpusStatistics":
        """The statistics of a whole corpus."""
        statistics = cls(corpus.name, corpus.files)
        for pair in corpus:
            statistics.add(pair)
        return statistics.finish()

    def add(self, pair: Pair) -> tuple[int, int]:
        """Adds a pair; returns the digests of its source and of the pair."""
        self.pairs += 1
        self._block.append(pair)
        if len(self._block) == BLOCK_PAIRS:
            self._count_block()
        self.lengths.add(pair)
        self.sample.add(pair)
        digests = text_digest(pair.source), pair_digest(pair)
        self.duplicates.add(*digests, pair.line)
        return digests

    def finish(self) -> "CorpusStatistics":
        """Counts the last, incomplete block; call it after the last `add`."""
        self._count_block()
        return self

    def _count_block(self) -> None:
        """Counts the characters of the pairs in the current block."""
        for side, lines in zip(
            self.characters,
            ([pair.source for pair in self._block], [pair.target for pair in self._block]),
            strict=True,
        ):
            side.add(lines)
        self._block = []
