"""The order in which training reads several corpora: each has a share of every epoch."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int

from regard.data.examples import Indices
from regard.data.order import BLOCK_EXAMPLES, MIXED, shuffled


class MixtureOrder:
    """A stream of each corpus, of which an epoch reads the next examples; their blocks are shuffled together.

    The stream of a corpus is all of its examples in blocks of neighbours, again and again, each time in
    another order: no example is read again before all others of its corpus were read. What an epoch reads is
    a function of the seed and its number.

    Args:
        sizes: the number of examples in each corpus; the examples are numbered through all corpora.
        reads: how many examples of each corpus an epoch reads.
        window: examples of a window, roughly.
    """

    def __init__(self, sizes: Sequence[int], reads: Sequence[int], window: int, *, seed: int) -> None:
        self._sizes, self._reads, self._seed = tuple(sizes), tuple(reads), seed
        self._first = (np.cumsum(sizes) - np.array(sizes)).tolist()
        self._block = min(BLOCK_EXAMPLES, window)
        self._windows = max(1, -(-sum(reads) // window))
        self._epoch: tuple[int, np.ndarray] | None = None

    def num_windows(self, epoch: int) -> int:
        return self._windows

    def window(self, epoch: int, number: int) -> Indices:
        blocks = np.array_split(self._blocks(epoch), self._windows)[number]
        return np.concatenate([np.arange(start, end) for start, end in blocks.tolist()])

    def _blocks(self, epoch: int) -> Int[np.ndarray, "blocks 2"]:
        """The first example and the end of each block that an epoch reads, shuffled."""
        if self._epoch is None or self._epoch[0] != epoch:
            found = np.concatenate(
                [part for corpus in range(len(self._sizes)) for part in self._read(corpus, epoch)]
            )
            self._epoch = epoch, found[shuffled(len(found), self._seed, epoch)]
        return self._epoch[1]

    def _read(self, corpus: int, epoch: int) -> Iterator[Int[np.ndarray, "blocks 2"]]:
        """The blocks of a corpus that an epoch reads, by the times that the corpus was read."""
        size, reads = self._sizes[corpus], self._reads[corpus]
        begin, end = epoch * reads, (epoch + 1) * reads
        for time in range(begin // size, -(-end // size)):
            blocks = shuffled(-(-size // self._block), self._seed, time, corpus, 0, MIXED)
            starts = blocks * self._block
            ends = np.cumsum(np.minimum(self._block, size - starts)) + time * size  # in the stream
            before = np.concatenate([[time * size], ends[:-1]])
            firsts, lasts = np.maximum(before, begin), np.minimum(ends, end)
            inside = firsts < lasts
            offsets = (starts - before + self._first[corpus])[inside]
            yield np.stack([firsts[inside] + offsets, lasts[inside] + offsets], axis=1)
