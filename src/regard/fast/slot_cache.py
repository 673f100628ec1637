"""A key-value cache indexed by slot: selecting rows changes a table of slots, and copies no keys.

A beam changes which hypothesis is in which row at every step. In `layers.cache` that copies keys and values;
here it copies rows of a table of integers. Rows of one source share its memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from regard.layers.cache import DecoderCache, StackCache

CAPACITY = 32  # positions for which memory is allocated at first


@dataclass(frozen=True)
class PackedMemory:
    """Keys and values of several sources, concatenated without padding, and the span of each row's source."""

    layers: Sequence[tuple[Float[Tensor, "positions features"], Float[Tensor, "positions features"]]]
    starts: Int64[Tensor, " rows"]
    lengths: Int64[Tensor, " rows"]
    longest: int


def packed(cache: DecoderCache) -> PackedMemory:
    """The memory of `cache` without its masked positions."""
    seen = cache.memory_mask[:, 0, 0]
    layers = [
        (memory.key.transpose(1, 2)[seen].flatten(1), memory.value.transpose(1, 2)[seen].flatten(1))
        for memory in cache.memories
    ]
    lengths = seen.sum(dim=1)
    return PackedMemory(layers, lengths.cumsum(0) - lengths, lengths, seen.size(1))


class SlotCache:
    """Keys and values of a decoder's self-attentions, and of its memory if there is one.

    `length` is the number of positions read. `keys` and `values` have one tensor a layer, with the positions
    from `first` on: position p of row i is in slot `table[i, p - first]`. `make_room` enlarges the table
    before a step, and the step writes its slots into it. With a `window` only the last `window` positions can
    be attended to; earlier ones are dropped when memory is needed.
    """

    def __init__(self, memory: PackedMemory | None = None, window: int | None = None) -> None:
        """An empty cache."""
        self.length = self.first = 0
        self.keys: list[Float[Tensor, "capacity slots features"]] = []
        self.values: list[Float[Tensor, "capacity slots features"]] = []
        self.table: Int32[Tensor, "rows capacity"] = torch.zeros(0, 0, dtype=torch.int32)
        self.memory, self.window = memory, window

    @classmethod
    def of(cls, cache: StackCache | DecoderCache, window: int | None = None) -> "SlotCache":
        """`cache` converted to slots; `cache` must not be used any more."""
        made = cls(packed(cache) if isinstance(cache, DecoderCache) else None, window)
        layers = cache.layers if isinstance(cache, StackCache) else cache.targets
        made.length = layers[0].length
        made.first = made.length - layers[0].held
        if made.length:
            held = [layer.held_pair() for layer in layers]
            made.keys = [_by_position(pair.key) for pair in held]
            made.values = [_by_position(pair.value) for pair in held]
            positions, rows = made.keys[0].shape[:2]
            made.table = torch.arange(rows, dtype=torch.int32)[:, None].repeat(1, positions)
        return made

    @property
    def held(self) -> int:
        """The number of positions whose keys and values are stored."""
        return self.length - self.first

    @property
    def begin(self) -> int:
        """The first position to which the next one can attend, counted from `first`."""
        return 0 if self.window is None else max(0, self.held + 1 - self.window)

    def make_room(self, rows: int, layers: int, features: int) -> None:
        """Allocate memory for one more position of so many rows."""
        if not self.keys:
            self.keys = [torch.empty(0, rows, features) for _ in range(layers)]
            self.values = [torch.empty(0, rows, features) for _ in range(layers)]
            self.table = torch.zeros(rows, 0, dtype=torch.int32)
        capacity, slots = self.keys[0].shape[:2]
        if self.held == capacity and 2 * self.begin > capacity:
            self._forget(self.begin)
        if self.held == capacity or rows > slots:
            capacity, slots = max(CAPACITY, capacity, 2 * self.held), max(rows, slots)
            self.keys = [_grown(each, capacity, slots) for each in self.keys]
            self.values = [_grown(each, capacity, slots) for each in self.values]
        if self.table.size(1) < capacity:
            self.table = torch.nn.functional.pad(self.table, (0, capacity - self.table.size(1)))

    def _forget(self, count: int) -> None:
        """Drop the first `count` positions, to which no later one can attend."""
        for tensors in (self.keys, self.values):
            tensors[:] = [torch.cat([each[count:], each[:count]]) for each in tensors]
        self.table = torch.cat([self.table[:, count:], self.table[:, :count]], dim=1)
        self.first += count

    def select(self, rows: Int64[Tensor, " rows"]) -> "SlotCache":
        """Replace row i by row `rows[i]`."""
        if len(self.table):
            self.table = self.table.index_select(0, rows)
        if self.memory is not None:
            self.memory = replace(
                self.memory, starts=self.memory.starts[rows], lengths=self.memory.lengths[rows]
            )
        return self

    def cut(self, length: int) -> None:
        """Keep the first `length` positions only.

        Raises:
            ValueError: positions to which the next one can attend have been dropped.
        """
        needed = 0 if self.window is None else max(0, length + 1 - self.window)
        if not self.first <= min(needed, length) <= length <= self.length:
            raise ValueError(f"{self.length} positions cannot be cut to {length}")
        self.length = length


def _by_position(held: Float[Tensor, "rows kv_heads seen d_head"]) -> Float[Tensor, "seen rows features"]:
    return held.permute(2, 0, 1, 3).flatten(2).contiguous()


def _grown(old: Float[Tensor, "capacity slots features"], capacity: int, slots: int) -> Tensor:
    grown = old.new_empty(capacity, slots, old.size(2))
    grown[: old.size(0), : old.size(1)] = old
    return grown
