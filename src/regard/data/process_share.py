"""One process's share of each batch, whatever the number of processes: its rows in turn."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.batch import Batch
from regard.data.examples import Examples, Numbers


@dataclass(frozen=True)
class ProcessShare:
    """Of every batch each `size`-th example from `rank` on.

    So a batch, and where a run stands, are the same for any number of processes, which may change between
    two updates. A batch has neighbours in length, so all read about as much of it.
    """

    examples: Examples
    rank: int
    size: int

    def __len__(self) -> int:
        return len(self.examples)

    def lengths(self, examples: Numbers, epoch: int) -> tuple[Numbers, Numbers]:
        return self.examples.lengths(examples, epoch)

    def batch(self, examples: Numbers, epoch: int) -> Batch:
        mine = examples[self.rank :: self.size]
        if len(mine):
            return self.examples.batch(mine, epoch)
        return EmptyShare(self.examples.batch(examples[:1], epoch))


@dataclass(frozen=True)
class EmptyShare:
    """The share of a process for which a batch has no example: another's, which is to count nothing.

    It works on that all the same, because the processes may need each other in every pass.
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
        """There is nothing to halve."""
        return
