"""Batches without end, in an order that is a function of (seed, epoch, position) and of nothing else.

An epoch shuffles the corpus in blocks of neighbouring examples, takes as many blocks at a time as make
a window, shuffles the window, sorts it by length into batches of a token budget and shuffles these. So
only a window is ever held in memory, and three integers (`Cursor`) say where a run stands.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch

from regard.data.batch import Batch
from regard.data.examples import Examples
from regard.data.noise import mixed
from regard.errors import RecipeError

BLOCK = 128  # neighbouring examples that are read together, so that a big corpus is not read at random


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """How examples become batches.

    `batch_tokens`: rows times positions of the longer side, padding included, in one batch, which all
    processes share. `batch_examples`: at most so many rows (0: as many as the tokens allow). `window`:
    examples among which lengths are sorted. `max_tokens`: of one side, its mark included; a longer pair is
    left out (and counted) when the shards are written. An example beyond `batch_tokens` is a batch alone.
    """

    batch_tokens: int = 4096
    batch_examples: int = 0
    window: int = 65_536
    max_tokens: int = 256

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < (name != "batch_examples"):
                raise RecipeError(f"{name} = {value} leaves nothing to read", "give 1 or more")


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """Where a run stands: the next batch to give, in a window of an epoch."""

    epoch: int = 0
    window: int = 0
    batch: int = 0

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_dict(cls, numbers: Mapping[str, int]) -> "Cursor":
        return cls(**numbers)


class Loader:
    """Iterates over batches, epoch after epoch, from `cursor`, which points at the next one.

    Every example is given once an epoch. A process among several reads its `Share` of each batch.
    """

    def __init__(self, examples: Examples, settings: LoaderSettings, *, seed: int) -> None:
        self.examples = examples
        self.settings = settings
        self.cursor = Cursor()
        self._seed = seed
        self._block = min(BLOCK, settings.window)
        blocks = -(-len(self.examples) // self._block)
        self._num_windows = -(-blocks // max(1, settings.window // self._block))
        self._planned: tuple[int, int, list[np.ndarray]] | None = None

    @property
    def epoch_examples(self) -> int:
        """Examples in an epoch."""
        return len(self.examples)

    def __iter__(self) -> Iterator[Batch]:
        """Batches without end; assigning to `cursor` between two of them moves the reading."""
        while True:
            yield self._advance()

    def epoch(self, epoch: int = 0) -> Iterator[Batch]:
        """The batches of one whole epoch; `cursor` stays where it is."""
        for window in range(self._num_windows):
            for batch in self._plan(epoch, window):
                yield self.examples.batch(batch, epoch)

    def batches_in_epoch(self, epoch: int) -> int:
        return sum(len(self._plan(epoch, window)) for window in range(self._num_windows))

    def _advance(self) -> Batch:
        at = self.cursor
        if self._planned is None or self._planned[:2] != (at.epoch, at.window):
            self._planned = at.epoch, at.window, self._plan(at.epoch, at.window)
        batches = self._planned[2]
        if at.batch + 1 < len(batches):
            self.cursor = Cursor(epoch=at.epoch, window=at.window, batch=at.batch + 1)
        elif at.window + 1 < self._num_windows:
            self.cursor = Cursor(epoch=at.epoch, window=at.window + 1)
        else:
            self.cursor = Cursor(epoch=at.epoch + 1)
        return self.examples.batch(batches[at.batch], at.epoch)

    def _plan(self, epoch: int, window: int) -> list[np.ndarray]:
        """The batches of a window as arrays of example numbers, in the order in which they are given."""
        generator = torch.Generator().manual_seed(mixed(self._seed, epoch))
        blocks = torch.randperm(-(-len(self.examples) // self._block), generator=generator).numpy()
        mine = np.array_split(blocks, self._num_windows)[window]
        examples = (mine[:, None] * self._block + np.arange(self._block)).ravel()
        examples = examples[examples < len(self.examples)]
        generator.manual_seed(mixed(self._seed, epoch, window))
        examples = examples[torch.randperm(len(examples), generator=generator).numpy()]
        first, second = self.examples.lengths(examples, epoch)
        most = self.settings.batch_examples or sys.maxsize
        places = bucketed(np.arange(len(examples)), first, second, self.settings.batch_tokens, most)
        mixed_up = torch.randperm(len(places), generator=generator).tolist()
        return [examples[places[number]] for number in mixed_up]


def bucketed(
    examples: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    batch_tokens: int,
    batch_examples: int = sys.maxsize,
) -> list[np.ndarray]:
    """Neighbours in length, as many at a time as `batch_tokens` and `batch_examples` allow.

    Sorted by the first of their lengths, then by the second in alternating directions, so that lengths
    change little from one example to the next. Among equals the order given stays.
    """
    order = np.lexsort((np.where(first % 2, -second, second), first))
    batches, start, longest = [], 0, 0
    for place, length in enumerate(np.maximum(first, second)[order].tolist()):
        longest = max(longest, length)
        rows = place + 1 - start
        if place > start and (rows * longest > batch_tokens or rows > batch_examples):
            batches.append(examples[order[start:place]])
            start, longest = place, length
    batches.append(examples[order[start:]])
    return batches
