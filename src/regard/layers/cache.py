"""Keys and values of positions already read, so that each is computed once.

A cache belongs to one decoding; nothing flows back through it, so read it without gradients.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor


class KeyValue(NamedTuple):
    """What an attention has made of the positions that can be looked at."""

    key: Float[Tensor, "batch kv_heads src_len d_head"]
    value: Float[Tensor, "batch kv_heads src_len d_value"]

    def contiguous(self) -> "KeyValue":
        """Laid out head by head, so that no look has to do that again."""
        return KeyValue(self.key.contiguous(), self.value.contiguous())

    def select(self, rows: Int64[Tensor, " rows"]) -> "KeyValue":
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))


class KeyValueCache:
    """The keys and values of one self-attention, in buffers that double when they are full.

    With a `window` (see `window_mask`) it holds only what the next query can look at, the last
    `window` - 1 positions, so that it does not grow with the text.
    """

    def __init__(self, capacity: int = 16, window: int | None = None) -> None:
        self.length = 0  # positions read, be they held or not
        self._window = window
        self._capacity = capacity
        self._room: KeyValue | None = None
        self._start = self._end = 0  # what is held of the room
        self._last = 0  # positions of the last `append`

    @property
    def held(self) -> int:
        """How many of the positions read the next query can look at."""
        count = self._end - self._start
        return count if self._window is None else min(count, self._window - 1)

    def append(
        self,
        key: Float[Tensor, "batch kv_heads new_len d_head"],
        value: Float[Tensor, "batch kv_heads new_len d_value"],
    ) -> KeyValue:
        """Keep these after the earlier ones; all that are held, as views of the room."""
        self._start = self._end - self.held
        room = self._room
        if room is None or self._end + key.size(2) > room.key.size(2):
            room = self._room = self._grow(key, value)
        start, self._end = self._end, self._end + key.size(2)
        room.key.narrow(2, start, key.size(2)).copy_(key)  # narrow: slices cost twice as much, at each step
        room.value.narrow(2, start, key.size(2)).copy_(value)
        self.length += key.size(2)
        self._last = key.size(2)
        count = self._end - self._start
        return KeyValue(room.key.narrow(2, self._start, count), room.value.narrow(2, self._start, count))

    def held_pair(self) -> KeyValue:
        """All that is held, as views of the room; something must have been read."""
        assert self._room is not None
        held = slice(self._end - self.held, self._end)
        return KeyValue(self._room.key[:, :, held], self._room.value[:, :, held])

    def select(self, rows: Int64[Tensor, " rows"]) -> None:
        """Row i becomes what row `rows[i]` was, in place."""
        _move([self], rows)

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions; with a window, those of the last `append` at most."""
        gone = self.length - length
        if not 0 <= gone <= self._end - self._start or (gone and self._window and gone > self._last):
            raise ValueError(f"{self.length} positions cannot be cut to {length}")
        self.length, self._end, self._last = length, self._end - gone, self._last - gone

    def _grow(self, key: Tensor, value: Tensor) -> KeyValue:
        """Room for these too; what is held moves to its beginning."""
        held = slice(self._start, self._end)
        count = self._end - self._start
        needed = count + key.size(2) if self._window is None else 2 * count + key.size(2)
        while self._capacity < needed:
            self._capacity *= 2
        old_key, old_value = (None, None) if self._room is None else self._room
        self._start, self._end = 0, count
        return KeyValue(
            _grown(old_key, held, key, self._capacity), _grown(old_value, held, value, self._capacity)
        )


class StackCache:
    """What the self-attentions of a stack have made of the positions read so far. One row a hypothesis."""

    def __init__(self, num_layers: int, window: int | None = None) -> None:
        self.layers = [KeyValueCache(window=window) for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """How many positions have been read."""
        return self.layers[0].length

    @property
    def held(self) -> int:
        """How many of them the next one can look at."""
        return self.layers[0].held

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        for layer in self.layers:
            layer.cut(length)

    def select(self, rows: Int64[Tensor, " rows"]) -> "StackCache":
        """Row i becomes what row `rows[i]` was, in place."""
        _move(self.layers, rows)
        return self


class DecoderCache:
    """All that a decoder keeps between steps: of the memory once, of the target as it grows.

    What it is made of is its own, to be changed in place.

    One row a hypothesis. `select` drops, repeats and reorders rows in place; rows of one sentence
    share what was made of its source, so only a change of sentences moves that.
    """

    def __init__(
        self,
        memories: list[KeyValue],
        memory_mask: Bool[Tensor, "rows 1 1 src_len"],
    ) -> None:
        self.memories = memories
        self.memory_mask = memory_mask
        self.targets = [KeyValueCache() for _ in memories]
        self._sentences = torch.arange(len(memory_mask), device=memory_mask.device)
        self._hidden: Tensor | None = None

    @property
    def hidden(self) -> Float[Tensor, "rows 1 1 src_len"]:
        """What is added to scores: 0 where the memory may be looked at, minus infinity where not."""
        if self._hidden is None:
            zeros = torch.zeros(
                self.memory_mask.shape, dtype=self.memories[0].key.dtype, device=self.memory_mask.device
            )
            self._hidden = zeros.masked_fill_(self.memory_mask.logical_not(), -torch.inf)
        return self._hidden

    @property
    def length(self) -> int:
        """How many positions of the target have been read."""
        return self.targets[0].length

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions of the target."""
        for target in self.targets:
            target.cut(length)

    def select(self, rows: Int64[Tensor, " rows"]) -> "DecoderCache":
        """Row i becomes what row `rows[i]` was."""
        if torch.equal(rows, torch.arange(len(self._sentences), device=rows.device)):
            return self
        _move(self.targets, rows)
        sentences = self._sentences[rows]
        if not torch.equal(sentences, self._sentences):
            places = torch.arange(len(rows), device=rows.device)
            if len(rows) <= len(self._sentences):  # a row of the same sentence as before has its memory
                rows = torch.where(sentences == self._sentences[: len(rows)], places, rows)
            self.memories = _pairs(moved([each for memory in self.memories for each in memory], rows))
            self.memory_mask, self._hidden = self.memory_mask[rows], None
            self._sentences = sentences
        return self


def moved(tensors: Sequence[Tensor], rows: Int64[Tensor, " rows"]) -> list[Tensor]:
    """Tensors whose row i is what row `rows[i]` was.

    On a CPU, where few rows change and no more are asked for, these are changed in place: to copy all of
    them was an eighth of the time of a beam of 160 rows.
    """
    if rows.device.type == "cpu" and tensors and len(rows) <= len(tensors[0]):
        changed = (rows != torch.arange(len(rows))).nonzero()[:, 0]
        if 2 * len(changed) <= len(rows):
            origin = rows[changed]
            for tensor in tensors:
                tensor.index_copy_(0, changed, tensor.index_select(0, origin))
            return [tensor[: len(rows)] for tensor in tensors]
    return [tensor.index_select(0, rows) for tensor in tensors]


def _move(caches: Sequence[KeyValueCache], rows: Int64[Tensor, " rows"]) -> None:
    """The same for what each of these holds."""
    filled = [cache for cache in caches if cache._room is not None]
    rooms = moved([each for cache in filled for each in cache._room or ()], rows)
    for cache, room in zip(filled, _pairs(rooms), strict=True):
        cache._room = room


def _pairs(tensors: Sequence[Tensor]) -> list[KeyValue]:
    return [KeyValue(*pair) for pair in zip(tensors[::2], tensors[1::2], strict=True)]


def _grown(old: Tensor | None, held: slice, new: Tensor, capacity: int) -> Tensor:
    """A room shaped like `new` with `capacity` positions, what is held of the old one copied."""
    room = new.new_empty((*new.shape[:2], capacity, new.size(3)))
    if old is not None:
        room[:, :, : held.stop - held.start] = old[:, :, held]
    return room
