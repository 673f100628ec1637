"""Examples of a tokenised corpus in parts, of which a few are in memory at a time."""

from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from regard.data.examples import Indices
from regard.data.order import PartOrder

Part = TypeVar("Part")
SomePart = TypeVar("SomePart", covariant=True)


@runtime_checkable
class Parts(Protocol[SomePart]):
    """The parts of a corpus."""

    def reads(self, now: Sequence[int], following: Sequence[int], /) -> None:
        """Keep these parts, and no others; `now` is needed first."""
        ...

    def part(self, number: int, /) -> SomePart:
        """A part."""
        ...


class StreamedExamples(Generic[Part]):
    """Examples that are numbered through all parts.

    Args:
        sizes: the number of examples in each part.
    """

    def __init__(self, sizes: Sequence[int], parts: Parts[Part]) -> None:
        self.sizes, self._parts = np.array(sizes, np.int64), parts
        self._ends = np.cumsum(self.sizes)
        self._first = self._ends - self.sizes

    def __len__(self) -> int:
        return int(self._ends[-1])

    def order(self, window: int, seed: int) -> PartOrder:
        """The order that needs few parts at a time."""
        return PartOrder(self.sizes, window, seed=seed, reads=self._parts.reads)

    def by_part(self, examples: Indices) -> Iterator[tuple[Part, np.ndarray, Indices]]:
        """For each part: itself, the places of its examples among these, and their numbers in the part."""
        numbers = np.searchsorted(self._ends, examples, side="right")
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            yield self._parts.part(number), places, examples[places] - self._first[number]
