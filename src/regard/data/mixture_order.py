"""The order in which training reads several corpora: each has a share of every epoch, spread over it."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int

from regard.data.examples import Indices
from regard.data.order import BLOCK_EXAMPLES, MIXED, shuffled

LEAST_WINDOW = 4096  # examples: batches end at the border of a window, so a small one would make them smaller


class MixtureOrder:
    """A stream of each corpus, of which an epoch reads the next examples, evenly from its begin to its end.

    The stream of a corpus is all of its examples in blocks of neighbours, again and again, each time in
    another order: after each window no example was read twice more often than another of its corpus. A
    window ends where a corpus has been read once, if it has LEAST_WINDOW examples by then: so few batches
    have an example twice. What an epoch reads is a function of the seed and its number.

    Args:
        sizes: the number of examples in each corpus; the examples are numbered through all corpora.
        reads: how many examples of each corpus an epoch reads.
        window: examples of a window, roughly.
        copies: segmentations of each example; each reading of an example has the next. The number of example
            n in segmentation c is n + c * sum(sizes).
    """

    def __init__(
        self, sizes: Sequence[int], reads: Sequence[int], window: int, *, seed: int, copies: int = 1
    ) -> None:
        self._sizes, self._reads, self._seed, self._copies = tuple(sizes), tuple(reads), seed, copies
        self._first = (np.cumsum(sizes) - np.array(sizes)).tolist()
        times = max(-(-count // size) for count, size in zip(reads, sizes, strict=True))
        self._windows = max(1, -(-sum(reads) // window), min(times, sum(reads) // LEAST_WINDOW))
        self._block = max(1, min(BLOCK_EXAMPLES, sum(reads) // self._windows))
        self._epoch: tuple[int, np.ndarray] | None = None

    def num_windows(self, epoch: int) -> int:
        return self._windows

    def window(self, epoch: int, number: int) -> Indices:
        blocks = self._blocks(epoch)
        ends = np.cumsum(blocks[:, 1] - blocks[:, 0])
        first, last = (
            int(np.searchsorted(ends, ends[-1] * each // self._windows, "right"))
            for each in (number, number + 1)
        )
        return np.concatenate([np.arange(start, end) for start, end in blocks[first:last].tolist()])

    def _blocks(self, epoch: int) -> Int[np.ndarray, "blocks 2"]:
        """The first example and the end of each block that an epoch reads, by its place in its stream."""
        if self._epoch is None or self._epoch[0] != epoch:
            streams = [np.concatenate([*self._read(corpus, epoch)]) for corpus in range(len(self._sizes))]
            places = [_places(blocks[:, 1] - blocks[:, 0]) for blocks in streams]
            order = np.argsort(np.concatenate(places), kind="stable")
            self._epoch = epoch, np.concatenate(streams)[order]
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
            copy = time % self._copies
            offsets = (starts - before + self._first[corpus] + copy * sum(self._sizes))[inside]
            yield np.stack([firsts[inside] + offsets, lasts[inside] + offsets], axis=1)


def _places(sizes: Int[np.ndarray, " blocks"]) -> Float[np.ndarray, " blocks"]:
    """Where the middle of each block of a stream is, from 0 to 1."""
    return (np.cumsum(sizes) - sizes / 2) / sizes.sum()
