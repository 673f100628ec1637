"""The order in which an epoch reads the examples: window by window, a function of seed and epoch.

A window has the examples that a loader sorts by length together. No list of all examples is made.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int

from regard.data.examples import Indices
from regard.data.noise import derive_seed

BLOCK_EXAMPLES = 128  # neighbours that stay together, which avoids random access to a large corpus
GROUP_WINDOWS = 16  # windows whose parts are read, and mixed, together
MIXED = 1  # the last number of a seed for the blocks of a group; the seeds of a loader have fewer numbers


@runtime_checkable
class Order(Protocol):
    """The windows of each epoch."""

    def num_windows(self, epoch: int) -> int:
        """The number of windows, 1 or more."""
        ...

    def window(self, epoch: int, number: int) -> Indices:
        """The examples of a window."""
        ...


class BlockOrder:
    """Blocks of neighbouring examples, shuffled over the whole corpus.

    Args:
        count: the number of examples.
        window: examples of a window, roughly.
    """

    def __init__(self, count: int, window: int, *, seed: int) -> None:
        self._count, self._seed = count, seed
        self._block = min(BLOCK_EXAMPLES, window)
        self._blocks = -(-count // self._block)
        self._windows = -(-self._blocks // max(1, window // self._block))

    def num_windows(self, epoch: int) -> int:
        return self._windows

    def window(self, epoch: int, number: int) -> Indices:
        blocks = shuffled(self._blocks, self._seed, epoch)
        starts = np.array_split(blocks, self._windows)[number] * self._block
        examples = (starts[:, None] + np.arange(self._block)).ravel()
        return examples[examples < self._count]


class PartOrder:
    """Parts of a corpus in random order, a group of them at a time, whose blocks of neighbours are shuffled.

    A group has the parts of about GROUP_WINDOWS windows. A process holds two groups at most: that which it
    reads, and the next.

    Args:
        sizes: the number of examples in each part; an empty part is never read.
        window: examples of a window, roughly.
        reads: is called with the parts of a group, and those of the next, before the first of them is read.
    """

    def __init__(
        self,
        sizes: Int[np.ndarray, " parts"],
        window: int,
        *,
        seed: int,
        reads: Callable[[Sequence[int], Sequence[int]], None],
    ) -> None:
        self._sizes = sizes
        self._first = np.cumsum(self._sizes) - self._sizes
        self._window, self._seed, self._reads = window, seed, reads
        self._block = min(BLOCK_EXAMPLES, window)
        self._epoch: tuple[int, list[np.ndarray], np.ndarray] | None = None
        self._group: tuple[int, int] | None = None

    def num_windows(self, epoch: int) -> int:
        return int(self._groups(epoch)[1][-1])

    def window(self, epoch: int, number: int) -> Indices:
        groups, ends = self._groups(epoch)
        group = int(np.searchsorted(ends, number, side="right"))
        if self._group != (epoch, group):
            self._group = epoch, group
            following = groups[group + 1] if group + 1 < len(groups) else self._parts(epoch + 1)[0]
            self._reads(groups[group].tolist(), following.tolist())
        begin = int(ends[group - 1]) if group else 0
        blocks = self._blocks(epoch, group, groups[group])
        chosen = np.array_split(blocks, int(ends[group]) - begin)[number - begin]
        return np.concatenate([np.arange(start, end) for start, end in chosen.tolist()])

    def _groups(self, epoch: int) -> tuple[list[np.ndarray], np.ndarray]:
        """The parts of each group of an epoch, and the number of windows to its end."""
        if self._epoch is None or self._epoch[0] != epoch:
            groups = self._parts(epoch)
            windows = [-(-int(self._sizes[parts].sum()) // self._window) for parts in groups]
            self._epoch = epoch, groups, np.cumsum(windows)
        return self._epoch[1:]

    def _parts(self, epoch: int) -> list[np.ndarray]:
        """The parts of each group of an epoch."""
        parts = shuffled(len(self._sizes), self._seed, epoch)
        parts = parts[self._sizes[parts] > 0]
        before = np.cumsum(self._sizes[parts]) - self._sizes[parts]
        numbers = before // (GROUP_WINDOWS * self._window)
        return np.split(parts, np.flatnonzero(np.diff(numbers)) + 1)

    def _blocks(self, epoch: int, group: int, parts: np.ndarray) -> Int[np.ndarray, "blocks 2"]:
        """The first example and the end of each block of neighbours in some parts, shuffled."""
        ends = self._first[parts] + self._sizes[parts]
        blocks = [
            (start, min(start + self._block, end))
            for first, end in zip(self._first[parts].tolist(), ends.tolist(), strict=True)
            for start in range(first, end, self._block)
        ]
        return np.array(blocks)[shuffled(len(blocks), self._seed, epoch, group, MIXED)]


def shuffled(count: int, *seed: int) -> np.ndarray:
    """The numbers below `count` in random order."""
    generator = torch.Generator().manual_seed(derive_seed(*seed))
    return torch.randperm(count, generator=generator).numpy()
