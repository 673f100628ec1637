"""Keys and values that stay where they were put, while rows that look at them come, go and change places.

A beam changes which hypothesis sits in which row at every step. Here that moves a table of numbers and not
what the hypotheses have read; and rows of one source share its memory.
"""

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from regard.layers.cache import DecoderCache, KeyValue, StackCache

CAPACITY = 32  # positions at first


class SeatedCache:
    """What a stack's self-attentions have made of the positions read, and of a memory if there is one.

    `table`: on which seat each row has each position; it grows with `take_seats`, before a step, and the step
    writes it. Nothing may be windowed.
    """

    def __init__(self, cache: StackCache | DecoderCache) -> None:
        """Goes on from `cache`, which must not be used any more."""
        layers = cache.layers if isinstance(cache, StackCache) else cache.targets
        self.length = layers[0].length
        self.keys: list[Float[Tensor, "capacity seats features"]] = []
        self.values: list[Float[Tensor, "capacity seats features"]] = []
        self.table: Int32[Tensor, "rows capacity"] = torch.zeros(0, 0, dtype=torch.int32)
        self.memories: list[KeyValue] = []
        if isinstance(cache, DecoderCache):
            self._remember(cache)
        if self.length:
            held = [layer.held_pair() for layer in layers]
            self.keys = [_by_position(pair.key) for pair in held]
            self.values = [_by_position(pair.value) for pair in held]
            rows = self.keys[0].size(1)
            self.table = torch.arange(rows, dtype=torch.int32)[:, None].repeat(1, self.length)

    def _remember(self, cache: DecoderCache) -> None:
        seen = cache.memory_mask[:, 0, 0]
        self.memories = [memory.contiguous() for memory in cache.memories]
        self.hidden: Float[Tensor, "sources src_len"] = torch.zeros(seen.shape).masked_fill_(
            ~seen, -torch.inf
        )
        places = torch.arange(1, seen.size(1) + 1)
        self.lengths: Int64[Tensor, " rows"] = (seen * places).amax(dim=1)  # to the last that may be seen
        self.sources: Int64[Tensor, " rows"] = torch.arange(len(seen))

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
        if self.memories:
            self.sources, self.lengths = self.sources[rows], self.lengths[rows]
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
