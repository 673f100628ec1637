"""Numbered examples that a loader can put in any order: what it asks of a data set, and pairs on disk."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from regard.data.batch import Batch, PairBatch, collate
from regard.data.shards import Shards

Numbers = Int[np.ndarray, " examples"]


@runtime_checkable
class Examples(Protocol):
    """A data set whose examples are known by their numbers, from 0.

    What comes of an example may depend on the epoch (noise, another segmentation), and on nothing else.
    """

    def __len__(self) -> int: ...

    def lengths(self, examples: Numbers, epoch: int) -> tuple[Numbers, Numbers]:
        """Two lengths of each: batches are sorted by the first, then the second; the larger one counts."""
        ...

    def batch(self, examples: Numbers, epoch: int) -> Batch:
        """These examples side by side."""
        ...


class PairExamples:
    """Pairs of tokenised sequences in a folder of shards, one sampled segmentation after the other."""

    def __init__(self, shards: Path | Shards, pad_id: int) -> None:
        self.shards = shards if isinstance(shards, Shards) else Shards(shards)
        self.pad_id = pad_id

    def __len__(self) -> int:
        return len(self.shards)

    def lengths(self, examples: Numbers, epoch: int) -> tuple[Numbers, Numbers]:
        """What the decoder reads of the targets, and the sources."""
        copy = self.shards.copy(epoch)
        return copy.target_lengths(examples) - 1, copy.source_lengths(examples)

    def batch(self, examples: Numbers, epoch: int) -> PairBatch:
        copy = self.shards.copy(epoch)
        lines = self.shards.lines[examples]
        return collate(copy.sources(examples), copy.targets(examples), lines, pad_id=self.pad_id)
