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
from regard.errors import DataError, RecipeError

TOGETHER = 2  # batches of about one size that follow one another (eight cost the dates 2 % of exact match)
BLOCK = 128  # neighbouring examples that are read together, so that a big corpus is not read at random


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """How examples become batches.

    `batch_tokens`: rows times positions of the longer side, padding included, in one batch of one
    process. `batch_examples`: at most so many rows (0: as many as the tokens allow). `window`: examples
    among which lengths are sorted. `max_tokens`: of one side, its mark included; a longer pair is left out
    (and counted) when the shards are written. An example beyond `batch_tokens` is a batch of its own.
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
    """Where a run stands: the next batch to give, counted over all processes, in a window of an epoch."""

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

    Process `rank` of `world_size` takes every `world_size`-th batch, and each step has one batch for every
    process, pairs of them about equally big: where the batches of a window run out, the biggest of the last
    are halved. So every example is given once an epoch and none twice. (Only where
    batches are so small that the last ones of a window hold fewer examples than there are processes, these
    are left out, others in every epoch.)
    """

    def __init__(
        self,
        examples: Examples,
        settings: LoaderSettings,
        *,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.examples = examples
        self.settings = settings
        self.cursor = Cursor()
        self._seed = seed
        self._rank = rank
        self._world_size = world_size
        self._block = min(BLOCK, settings.window)
        blocks = -(-len(self.examples) // self._block)
        self._num_windows = -(-blocks // max(1, settings.window // self._block))
        self._planned: tuple[int, int, list[np.ndarray]] | None = None

    @property
    def epoch_examples(self) -> int:
        """Examples in an epoch, over all processes."""
        return len(self.examples)

    def __iter__(self) -> Iterator[Batch]:
        """Batches without end; assigning to `cursor` between two of them moves the reading."""
        while True:
            yield self._advance()

    def epoch(self, epoch: int = 0) -> Iterator[Batch]:
        """This process's batches of one whole epoch; `cursor` stays where it is."""
        for window in range(self._num_windows):
            batches = self._plan(epoch, window)
            place = 0
            while place < len(batches):
                group, place = self._group(batches, place)
                yield self.examples.batch(group[self._rank], epoch)

    def batches_in_epoch(self, epoch: int) -> int:
        """How many batches each process gets in an epoch."""
        counts = (len(self._plan(epoch, window)) for window in range(self._num_windows))
        return sum(-(-count // self._world_size) for count in counts)

    def _advance(self) -> Batch:
        at = self.cursor
        if self._planned is None or self._planned[:2] != (at.epoch, at.window):
            self._planned = at.epoch, at.window, self._plan(at.epoch, at.window)
        batches = self._planned[2]
        group, place = self._group(batches, at.batch)
        if place < len(batches):
            self.cursor = Cursor(epoch=at.epoch, window=at.window, batch=place)
        elif at.window + 1 < self._num_windows:
            self.cursor = Cursor(epoch=at.epoch, window=at.window + 1)
        else:
            self.cursor = Cursor(epoch=at.epoch + 1)
        return self.examples.batch(group[self._rank], at.epoch)

    def _group(self, batches: list[np.ndarray], place: int) -> tuple[list[np.ndarray], int]:
        """One batch for each process, from `place` on, and the place after them."""
        group = batches[place : place + self._world_size]
        after = place + len(group)
        while len(group) < self._world_size:
            biggest = max(range(len(group)), key=lambda number: len(group[number]))
            group[biggest : biggest + 1] = np.array_split(group[biggest], 2)
        return group, after

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
        places = [places[number] for number in torch.randperm(len(places), generator=generator)]
        sizes = np.array([len(each) * (first[each].max() + second[each].max()) for each in places])
        return self._shareable([examples[places[number]] for number in alike(sizes)])

    def _shareable(self, batches: list[np.ndarray]) -> list[np.ndarray]:
        """See to it that the last step of a window has an example for every process."""
        surplus = len(batches) % self._world_size
        if not surplus or sum(map(len, batches[-surplus:])) >= self._world_size:
            return batches
        by_size = sorted(range(len(batches)), key=lambda number: len(batches[number]))
        biggest = set(by_size[-surplus:])
        last = [batches[number] for number in sorted(biggest)]
        if sum(map(len, last)) >= self._world_size:
            return [batch for number, batch in enumerate(batches) if number not in biggest] + last
        if surplus == len(batches):
            raise DataError(
                f"{len(self.examples):,} examples cannot be shared among {self._world_size} processes",
                "run fewer processes",
            )
        return batches[:-surplus]


def alike(sizes: np.ndarray) -> np.ndarray:
    """Numbers of batches in a random order in which pairs of neighbours are about equally big.

    So two processes do not wait for each other. It is the same for any number of them, so that a run can go
    on with another; longer rows of one size are rows of one kind of example, and a run learns less by them.
    """
    whole = len(sizes) - len(sizes) % TOGETHER
    steps = np.argsort(sizes[:whole], kind="stable").reshape(-1, TOGETHER)
    steps = steps[np.argsort(steps.min(axis=1))]  # as random as the batches came
    return np.concatenate((steps.ravel(), whole + np.argsort(sizes[whole:], kind="stable")))


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
