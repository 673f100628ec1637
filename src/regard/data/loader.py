"""The data loader: endless shuffled batches whose order depends on (seed, epoch, position) alone.

An epoch is windows of examples (`order.py`). The loader shuffles a window, sorts it by length into batches of
a token budget, and shuffles the batches. So only one window is in memory, and three integers (`Cursor`) hold
the position of a run.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch

from regard.data.batch import Batch
from regard.data.examples import Examples
from regard.data.noise import derive_seed
from regard.data.order import BlockOrder, Order
from regard.errors import RecipeError
from regard.recipe import check_types

PLANNED = 8  # windows whose batches are counted; in an epoch of more the others are taken to be like them


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """The sizes of batches.

    `batch_tokens`: the token budget of a batch: rows times positions of the longer side, padding included,
    over all processes together. `batch_examples`: the largest number of rows (0: no limit). `window`: the
    number of examples that are sorted by length together. `max_tokens`: the longest side in tokens, eos
    included; a longer pair is skipped (and counted) when the shards are written. An example longer than
    `batch_tokens` is a batch of its own.
    """

    batch_tokens: int = 4096
    batch_examples: int = 0
    window: int = 65_536
    max_tokens: int = 256

    def __post_init__(self) -> None:
        check_types(self)
        for name, value in asdict(self).items():
            if value < (name != "batch_examples"):
                raise RecipeError(f"{name} = {value} leaves nothing to read", "give 1 or more")


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """The position of a run in its data: the next batch, in a window of an epoch."""

    epoch: int = 0
    window: int = 0
    batch: int = 0

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_dict(cls, numbers: Mapping[str, int]) -> "Cursor":
        return cls(**numbers)


class Loader:
    """An endless iterator over batches, starting at `cursor`, which points at the next batch.

    Each epoch has every example once. With several processes, each reads its `ProcessShare` of every batch.

    Args:
        order: of the windows; None: blocks of neighbours, shuffled over the whole corpus.
    """

    def __init__(
        self, examples: Examples, settings: LoaderSettings, *, seed: int, order: Order | None = None
    ) -> None:
        self.examples = examples
        self.settings = settings
        self.order = order or BlockOrder(len(examples), settings.window, seed=seed)
        self.cursor = Cursor()
        self._seed = seed
        self._planned: tuple[int, int, list[np.ndarray]] | None = None

    def __iter__(self) -> Iterator[Batch]:
        """Endless batches; assigning to `cursor` between two batches moves the position."""
        while True:
            yield self._advance()

    def epoch(self, epoch: int = 0) -> Iterator[Batch]:
        """The batches of one epoch; `cursor` does not move."""
        for window in range(self.order.num_windows(epoch)):
            for batch in self._plan(epoch, window):
                yield self.examples.batch(batch, epoch)

    @property
    def is_estimated(self) -> bool:
        """True if `batches_in_epoch` is an estimate, as an epoch has many windows."""
        return self.order.num_windows(0) > PLANNED

    def batches_in_epoch(self, epoch: int) -> int:
        """The number of batches in an epoch; of more than some windows an estimate from the first ones."""
        windows = self.order.num_windows(epoch)
        first = min(windows, PLANNED)
        return round(sum(len(self._plan(epoch, window)) for window in range(first)) * windows / first)

    def _advance(self) -> Batch:
        """The next batch; `cursor` moves on."""
        at = self.cursor
        if self._planned is None or self._planned[:2] != (at.epoch, at.window):
            self._planned = at.epoch, at.window, self._plan(at.epoch, at.window)
        batches = self._planned[2]
        if at.batch + 1 < len(batches):
            self.cursor = Cursor(epoch=at.epoch, window=at.window, batch=at.batch + 1)
        elif at.window + 1 < self.order.num_windows(at.epoch):
            self.cursor = Cursor(epoch=at.epoch, window=at.window + 1)
        else:
            self.cursor = Cursor(epoch=at.epoch + 1)
        return self.examples.batch(batches[at.batch], at.epoch)

    def _plan(self, epoch: int, window: int) -> list[np.ndarray]:
        """The batches of a window in order, as arrays of example indices."""
        examples = self.order.window(epoch, window)
        generator = torch.Generator().manual_seed(derive_seed(self._seed, epoch, window))
        examples = examples[torch.randperm(len(examples), generator=generator).numpy()]
        first, second = self.examples.lengths(examples, epoch)
        max_rows = self.settings.batch_examples or sys.maxsize
        places = bucket_by_length(
            np.arange(len(examples)), first, second, self.settings.batch_tokens, max_rows
        )
        shuffled = torch.randperm(len(places), generator=generator).tolist()
        return [examples[places[number]] for number in shuffled]


def bucket_by_length(
    examples: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    batch_tokens: int,
    batch_examples: int = sys.maxsize,
) -> list[np.ndarray]:
    """Batches of examples of similar length, as large as `batch_tokens` and `batch_examples` allow.

    Examples are sorted by their first length, then by their second in alternating directions, so that
    neighbours differ little. The sort is stable.
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
