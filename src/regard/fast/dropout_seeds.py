"""Seeds of dropout on a GPU: from PyTorch's generator on the host, for which no GPU is waited.

A recorded pass has no host that draws: it reads its seeds from memory, where those of each pass are written
before it runs. They are the seeds that the host would have drawn, in the same order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Int64
from torch import Tensor

LARGEST = 2**31


def next_seed() -> int | Int64[Tensor, ""]:
    """The seed of the next dropout: a number, or within `SeedMemory.used` its place in memory."""
    counter = _counter.get()
    return _drawn() if counter is None else counter.next()


def _drawn() -> int:
    return int(torch.randint(LARGEST, (), device="cpu"))


class SeedCounter:
    """Counts the seeds that are drawn within `used`."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> int | Int64[Tensor, ""]:
        self.count += 1
        return _drawn()

    @contextmanager
    def used(self) -> Iterator[None]:
        """A context in which `next_seed` asks this object, from its first seed on."""
        self.count = 0
        token = _counter.set(self)
        try:
            yield
        finally:
            _counter.reset(token)


class SeedMemory(SeedCounter):
    """The seeds of a pass in the memory of a device."""

    def __init__(self, size: int, device: torch.device) -> None:
        super().__init__()
        self._seeds = torch.zeros(size, dtype=torch.int64, device=device)

    @property
    def are_all_read(self) -> bool:
        """True if the last pass had as many seeds as there are."""
        return self.count == len(self._seeds)

    def draw(self) -> None:
        """Writes the seeds of the next pass."""
        if len(self._seeds):
            drawn = torch.randint(LARGEST, (len(self._seeds),), device="cpu")
            drawn = drawn.pin_memory() if self._seeds.is_cuda else drawn
            self._seeds.copy_(drawn, non_blocking=True)

    def next(self) -> int | Int64[Tensor, ""]:
        """The place of the next seed; the last one again if the pass has more than were counted."""
        self.count += 1
        return self._seeds[min(self.count, len(self._seeds)) - 1] if len(self._seeds) else _drawn()


_counter: ContextVar[SeedCounter | None] = ContextVar("dropout seeds", default=None)
