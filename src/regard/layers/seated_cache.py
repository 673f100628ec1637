"""Keys and values that stay where they were put, while rows that look at them change places.

A beam changes which hypothesis sits in which row at every step. Here that moves a table of numbers and not
what the hypotheses have read; and rows of one source share its memory.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from regard.layers.cache import DecoderCache, StackCache

CAPACITY = 32  # positions at first


@dataclass(frozen=True)
class PackedMemory:
    """Keys and values of sources one after the other, without padding, and where each row's source is."""

    layers: list[tuple[Float[Tensor, "positions features"], Float[Tensor, "positions features"]]]
    starts: Int64[Tensor, " rows"]
    lengths: Int64[Tensor, " rows"]
    longest: int


def packed(cache: DecoderCache) -> PackedMemory:
    """What a cache has of the memory, where it may be looked at."""
    seen = cache.memory_mask[:, 0, 0]
    layers = [
        (memory.key.transpose(1, 2)[seen].flatten(1), memory.value.transpose(1, 2)[seen].flatten(1))
        for memory in cache.memories
    ]
    lengths = seen.sum(dim=1)
    return PackedMemory(layers, lengths.cumsum(0) - lengths, lengths, seen.size(1))


class SeatedCache:
    """What a stack's self-attentions have made of the positions read, and of a memory if there is one.

    `table`: on which seat each row has each position; it grows with `take_seats`, before a step, and the step
    writes it. Nothing may be windowed.
    """

    def __init__(self, memory: "PackedMemory | None" = None) -> None:
        """Nothing has been read yet, or a memory alone."""
        self.length = 0
        self.keys: list[Float[Tensor, "capacity seats features"]] = []
        self.values: list[Float[Tensor, "capacity seats features"]] = []
        self.table: Int32[Tensor, "rows capacity"] = torch.zeros(0, 0, dtype=torch.int32)
        self.memory = memory

    @classmethod
    def of(cls, cache: StackCache | DecoderCache) -> "SeatedCache":
        """To go on from `cache`, which must not be used any more."""
        seated = cls(packed(cache) if isinstance(cache, DecoderCache) else None)
        layers = cache.layers if isinstance(cache, StackCache) else cache.targets
        seated.length = layers[0].length
        if seated.length:
            held = [layer.held_pair() for layer in layers]
            seated.keys = [_by_position(pair.key) for pair in held]
            seated.values = [_by_position(pair.value) for pair in held]
            rows = seated.keys[0].size(1)
            seated.table = torch.arange(rows, dtype=torch.int32)[:, None].repeat(1, seated.length)
        return seated

    def take_seats(self, rows: int, layers: int, features: int) -> None:
        """Room for another position of so many rows."""
        if not self.keys:
            self.keys = [torch.empty(0, rows, features) for _ in range(layers)]
            self.values = [torch.empty(0, rows, features) for _ in range(layers)]
            self.table = torch.zeros(rows, 0, dtype=torch.int32)
        capacity, seats = self.keys[0].shape[:2]
        if self.length == capacity or rows > seats:
            capacity, seats = max(CAPACITY, capacity, 2 * self.length), max(rows, seats)
            self.keys = [_grown(each, capacity, seats) for each in self.keys]
            self.values = [_grown(each, capacity, seats) for each in self.values]
        if self.table.size(1) < capacity:
            self.table = torch.nn.functional.pad(self.table, (0, capacity - self.table.size(1)))

    def select(self, rows: Int64[Tensor, " rows"]) -> "SeatedCache":
        """Row i becomes what row `rows[i]` was."""
        if len(self.table):
            self.table = self.table.index_select(0, rows)
        if self.memory is not None:
            self.memory = replace(
                self.memory, starts=self.memory.starts[rows], lengths=self.memory.lengths[rows]
            )
        return self

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        self.length = length


def _by_position(held: Float[Tensor, "rows kv_heads seen d_head"]) -> Float[Tensor, "seen rows features"]:
    return held.permute(2, 0, 1, 3).flatten(2).contiguous()


def _grown(old: Float[Tensor, "capacity seats features"], capacity: int, seats: int) -> Tensor:
    room = old.new_empty(capacity, seats, old.size(2))
    room[: old.size(0), : old.size(1)] = old
    return room
