"""Pairs of a tokenised corpus in parts, of which a few are in memory at a time."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from regard.data.batch import PairBatch, collate
from regard.data.examples import Indices, Lengths
from regard.data.order import PartOrder
from regard.data.token_part import TokenPart


@runtime_checkable
class Parts(Protocol):
    """The parts of a corpus."""

    def reads(self, now: Sequence[int], following: Sequence[int], /) -> None:
        """Keep these parts, and no others; `now` is needed first."""
        ...

    def part(self, number: int, /) -> TokenPart:
        """A part."""
        ...


class StreamedPairs:
    """Examples that are numbered through all parts.

    Args:
        sizes: the number of pairs in each part.
    """

    def __init__(self, sizes: Sequence[int], parts: Parts, pad_id: int) -> None:
        self.sizes, self._parts, self.pad_id = np.array(sizes, np.int64), parts, pad_id
        self._ends = np.cumsum(self.sizes)
        self._first = self._ends - self.sizes

    def __len__(self) -> int:
        return int(self._ends[-1])

    def order(self, window: int, seed: int) -> PartOrder:
        """The order that needs few parts at a time."""
        return PartOrder(self.sizes, window, seed=seed, reads=self._parts.reads)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        """The lengths of the decoder inputs and of the sources."""
        first, second = np.empty_like(examples), np.empty_like(examples)
        for part, places, inside in self._by_part(examples):
            copy = part.copy(epoch)
            first[places] = copy.target_lengths(inside) - 1
            second[places] = copy.source_lengths(inside)
        return first, second

    def batch(self, examples: Indices, epoch: int) -> PairBatch:
        """A batch of these examples; `lines` count within their parts."""
        lines = np.empty_like(examples)
        pairs: list[tuple[np.ndarray, np.ndarray]] = [(lines, lines)] * len(examples)
        for part, places, inside in self._by_part(examples):
            copy = part.copy(epoch)
            lines[places] = part.lines[inside]
            both = zip(copy.sources(inside), copy.targets(inside), strict=True)
            for place, pair in zip(places.tolist(), both, strict=True):
                pairs[place] = pair
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        return collate(sources, targets, lines, pad_id=self.pad_id)

    def _by_part(self, examples: Indices) -> Iterator[tuple[TokenPart, np.ndarray, Indices]]:
        """For each part: itself, the places of its examples among these, and their numbers in the part."""
        numbers = np.searchsorted(self._ends, examples, side="right")
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            yield self._parts.part(number), places, examples[places] - self._first[number]
