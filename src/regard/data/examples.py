"""Examples with random access: the interface of a data set for the loader, and pairs on disk."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from regard.data.batch import Batch, PairBatch, collate
from regard.data.shards import Copy, MixedCopies, Shards

Indices = Int[np.ndarray, " examples"]
Lengths = Int[np.ndarray, " examples"]


@runtime_checkable
class Examples(Protocol):
    """A data set whose examples are addressed by index, from 0.

    An example may depend on the epoch (noise, sampled segmentation), and on nothing else.
    """

    def __len__(self) -> int: ...

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        """Two lengths of each example: batches are sorted by both; the larger one counts for the budget."""
        ...

    def batch(self, examples: Indices, epoch: int) -> Batch:
        """A batch of these examples."""
        ...


@runtime_checkable
class OrderedExamples(Protocol):
    """Examples that are read in an order of their own."""

    def order(self, window: int, seed: int) -> Any:
        """Their `Order`: the windows of each epoch, of about `window` examples."""
        ...


class PairExamples:
    """Pairs of tokenised sequences in a folder of shards; each epoch reads the next sampled segmentation."""

    def __init__(self, shards: Path | Shards, pad_id: int) -> None:
        self.shards = shards if isinstance(shards, Shards) else Shards(shards)
        self.pad_id = pad_id

    def __len__(self) -> int:
        return len(self.shards)

    def copy(self, epoch: int) -> Copy | MixedCopies:
        """The segmentation that an epoch reads."""
        return self.shards.copy(epoch)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        """The lengths of the decoder inputs and of the sources."""
        copy = self.copy(epoch)
        return copy.target_lengths(examples) - 1, copy.source_lengths(examples)

    def batch(self, examples: Indices, epoch: int) -> PairBatch:
        copy = self.copy(epoch)
        lines = self.shards.lines[examples % len(self)]
        return collate(copy.sources(examples), copy.targets(examples), lines, pad_id=self.pad_id)
