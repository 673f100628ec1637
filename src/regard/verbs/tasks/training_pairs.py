"""The training pairs of a translation: shards in the run's folder, or a tokenised corpus anywhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from regard.data.corpus_mixture import Mixture
from regard.data.examples import Examples, PairExamples
from regard.data.mixture_order import MixtureOrder
from regard.data.shards import Shards
from regard.data.streamed_pairs import StreamedPairs
from regard.data.token_part import TokenPart
from regard.jobs.storage import Storage
from regard.jobs.token_corpus import PartReader, TokenIndex

SAMPLED_PARTS = 8  # whose lengths stand for those of all parts


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


class MixedPairs(PairExamples):
    """Pairs of several corpora, of which each has a share of every epoch."""

    def __init__(self, shards: Shards, pad_id: int, reads: Sequence[int]) -> None:
        super().__init__(shards, pad_id)
        self._reads = reads

    def order(self, window: int, seed: int) -> MixtureOrder:
        """The order that reads the corpora by their shares."""
        return MixtureOrder(self.shards.sizes, self._reads, window, seed=seed)


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


class CorpusPairs:
    """The parts of a tokenised corpus; quantiles are those of some parts."""

    def __init__(self, storage: Storage, index: TokenIndex) -> None:
        self._storage, self._index = storage, index

    def examples(self, pad_id: int) -> Examples:
        return StreamedPairs(self._index.numbers("pairs"), self._reader(), pad_id)

    def _reader(self) -> PartReader[TokenPart]:
        return PartReader(self._storage, self._index, TokenPart.of)

    def longest(self) -> int:
        totals = self._index.totals
        return max(totals["longest_source"], totals["longest_target"] - 1)

    def length_quantile(self, share: float) -> int:
        filled = [number for number, size in enumerate(self._index.numbers("pairs")) if size]
        reader, lengths = self._reader(), list[np.ndarray]()
        for number in filled[:: -(-len(filled) // SAMPLED_PARTS)]:
            reader.reads([number], [])  # and no other is kept
            part = reader.part(number)
            lengths.append(part.copy(0).source_lengths(np.arange(len(part))))
        return int(np.quantile(np.concatenate(lengths), share, method="higher")) - 1
