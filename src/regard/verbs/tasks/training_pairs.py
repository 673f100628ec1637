"""The training pairs of a translation: shards in the run's folder, or a tokenised corpus anywhere."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from regard.data.corpus_mixture import Mixture
from regard.data.examples import Examples, PairExamples
from regard.data.mixture_order import MixtureOrder
from regard.data.pair_part import PairPart
from regard.data.shards import MixedCopies, Shards
from regard.data.streamed_pairs import StreamedPairs
from regard.jobs.storage import Storage
from regard.jobs.token_corpus import PartReader, TokenIndex

SAMPLED_PARTS = 8  # whose lengths stand for those of all parts
SAMPLED_PAIRS = 200_000  # a language that is that of one in 10,000 pairs is not among them once in e^20 times


@runtime_checkable
class TrainingPairs(Protocol):
    """Tokenised pairs, and how long they are."""

    def examples(self, pad_id: int) -> Examples:
        """The pairs as examples."""
        ...

    def longest(self) -> int:
        """The most positions that a side of a pair needs in a model."""
        ...

    def length_quantile(self, share: float) -> int:
        """This quantile of the sources' lengths in tokens, the end token not counted."""
        ...

    def some_beginnings(self, tokens: int) -> list[list[int]]:
        """The first tokens of each source, or of SAMPLED_PAIRS of them."""
        ...


class MixedPairs(PairExamples):
    """Pairs of several corpora, of which each has a share of every epoch.

    Each reading of a pair has the next sampled segmentation, also within an epoch.
    """

    def __init__(self, shards: Shards, pad_id: int, reads: Sequence[int]) -> None:
        super().__init__(shards, pad_id)
        self._reads = reads

    def order(self, window: int, seed: int) -> MixtureOrder:
        """The order that reads the corpora by their shares."""
        copies = len(self.shards.copies)
        return MixtureOrder(self.shards.sizes, self._reads, window, seed=seed, copies=copies)

    def copy(self, epoch: int) -> MixedCopies:
        """All segmentations: the order says which one is read."""
        return self.shards.mixed_copies()


class ShardedPairs:
    """The shards of a folder.

    Args:
        mixture: how often the pairs of each corpus are read, if there are several.
    """

    def __init__(self, folder: Path, mixture: Mixture | None = None) -> None:
        self._shards, self._mixture = Shards(folder), mixture

    def examples(self, pad_id: int) -> Examples:
        if self._mixture is None:
            return PairExamples(self._shards, pad_id)
        return MixedPairs(self._shards, pad_id, self._mixture.reads(self._shards.sizes).tolist())

    @property
    def sizes(self) -> Sequence[int]:
        """The number of pairs of each corpus."""
        return self._shards.sizes

    def longest(self) -> int:
        examples = np.arange(len(self._shards))
        return max(
            int(lengths.max())
            for copy in self._shards.copies
            for lengths in (copy.source_lengths(examples), copy.target_lengths(examples) - 1)
        )

    def length_quantile(self, share: float) -> int:
        lengths = self._shards.copy(0).source_lengths(np.arange(len(self._shards)))
        return int(np.quantile(lengths, share, method="higher")) - 1

    def some_beginnings(self, tokens: int) -> list[list[int]]:
        sources = self._shards.copy(0).sources(_spread(len(self._shards), SAMPLED_PAIRS))
        return [ids[:tokens].tolist() for ids in sources]


class CorpusPairs:
    """The parts of a tokenised corpus; quantiles are those of some parts."""

    def __init__(self, storage: Storage, index: TokenIndex) -> None:
        self._storage, self._index = storage, index

    def examples(self, pad_id: int) -> Examples:
        return StreamedPairs(self._index.numbers("pairs"), self._reader(), pad_id)

    def _reader(self) -> PartReader[PairPart]:
        return PartReader(self._storage, self._index, PairPart.of)

    def longest(self) -> int:
        totals = self._index.totals
        return max(totals["longest_source"], totals["longest_target"] - 1)

    def length_quantile(self, share: float) -> int:
        lengths = [part.copy(0).source_lengths(np.arange(len(part))) for part in self._some_parts()]
        return int(np.quantile(np.concatenate(lengths), share, method="higher")) - 1

    def some_beginnings(self, tokens: int) -> list[list[int]]:
        most = SAMPLED_PAIRS // SAMPLED_PARTS
        return [
            ids[:tokens].tolist()
            for part in self._some_parts()
            for ids in part.copy(0).sources(_spread(len(part), most))
        ]

    def _some_parts(self) -> Iterator[PairPart]:
        filled = [number for number, size in enumerate(self._index.numbers("pairs")) if size]
        reader = self._reader()
        for number in filled[:: -(-len(filled) // SAMPLED_PARTS)]:
            reader.reads([number], [])  # and no other is kept
            yield reader.part(number)


def _spread(count: int, most: int) -> np.ndarray:
    """The numbers from 0 to `count`, or `most` of them, at random: a step would miss what alternates."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))
