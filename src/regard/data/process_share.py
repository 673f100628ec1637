"""The share of each batch that one of several processes reads."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.batch import Batch
from regard.data.examples import Examples, Indices, Lengths


@dataclass(frozen=True)
class ProcessShare:
    """Every `size`-th example of each batch, starting at `rank`.

    Batches and the position of a run do not depend on the number of processes, which may change between two
    updates. The examples of a batch have similar lengths, so all processes have about the same work.
    """

    examples: Examples
    rank: int
    size: int

    def __len__(self) -> int:
        return len(self.examples)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        return self.examples.lengths(examples, epoch)

    def batch(self, examples: Indices, epoch: int) -> Batch:
        own = examples[self.rank :: self.size]
        if len(own):
            return self.examples.batch(own, epoch)
        return EmptyShare(self.examples.batch(examples[:1], epoch))


@dataclass(frozen=True)
class EmptyShare:
    """The empty share of a process that has no example of a batch.

    The process computes the pass of another's example, because every pass synchronises all processes, but
    counts no target.
    """

    other: Batch

    @property
    def lines(self) -> Int64[Tensor, " examples"]:
        return self.other.lines[:0]

    @property
    def num_targets(self) -> int:
        return 0

    def to(self, device: torch.device | str) -> "EmptyShare":
        return EmptyShare(self.other.to(device))

    def halves(self) -> None:
        """None: an empty share cannot be split."""
        return
