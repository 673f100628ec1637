"""Keys and values of positions already read, so that each is computed once.

A cache belongs to one decoding; nothing flows back through it, so read it without gradients.
"""

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
    """The keys and values of one self-attention, with room to grow; the room doubles when it is full."""

    def __init__(self, capacity: int = 16) -> None:
        self.length = 0
        self._capacity = capacity
        self._room: KeyValue | None = None

    def append(
        self,
        key: Float[Tensor, "batch kv_heads new_len d_head"],
        value: Float[Tensor, "batch kv_heads new_len d_value"],
    ) -> KeyValue:
        """Keep these after the earlier ones; all of them, as views of the room."""
        start, self.length = self.length, self.length + key.size(2)
        room = self._room
        if room is None or self.length > room.key.size(2):
            while self._capacity < self.length:
                self._capacity *= 2
            old_key, old_value = room if room is not None else (None, None)
            room = KeyValue(_grown(old_key, key, self._capacity), _grown(old_value, value, self._capacity))
            self._room = room
        room.key[:, :, start : self.length] = key
        room.value[:, :, start : self.length] = value
        return KeyValue(room.key[:, :, : self.length], room.value[:, :, : self.length])

    def select(self, rows: Int64[Tensor, " rows"]) -> None:
        if self._room is not None:
            self._room = self._room.select(rows)


class DecoderCache:
    """All that a decoder keeps between steps: of the memory once, of the target as it grows.

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

    @property
    def length(self) -> int:
        """How many positions of the target have been read."""
        return self.targets[0].length

    def select(self, rows: Int64[Tensor, " rows"]) -> "DecoderCache":
        """Row i becomes what row `rows[i]` was."""
        if torch.equal(rows, torch.arange(len(self._sentences), device=rows.device)):
            return self
        for target in self.targets:
            target.select(rows)
        sentences = self._sentences[rows]
        if not torch.equal(sentences, self._sentences):
            self._sentences = sentences
            self.memories = [memory.select(rows) for memory in self.memories]
            self.memory_mask = self.memory_mask[rows]
        return self


def _grown(old: Tensor | None, new: Tensor, capacity: int) -> Tensor:
    """A room shaped like `new` with `capacity` positions, the old ones copied."""
    room = new.new_empty((*new.shape[:2], capacity, new.size(3)))
    if old is not None:
        room[:, :, : old.size(2)] = old
    return room
