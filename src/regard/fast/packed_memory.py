"""Keys and values of sources without padding, one after the other; sources join and leave."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.layers.cache import DecoderCache

Positions = Float[Tensor, "positions features"]


@dataclass(frozen=True)
class PackedMemory:
    """Keys and values of several sources, layer by layer, and the span of each row's source in them.

    The first `end` positions are in use; after them sources are appended, until there is no room. Then the
    sources of rows that have left make room.
    """

    layers: Sequence[tuple[Positions, Positions]]
    starts: Int64[Tensor, " rows"]
    lengths: Int64[Tensor, " rows"]
    longest: int  # no source is longer
    end: int

    def select(self, rows: Int64[Tensor, " rows"]) -> "PackedMemory":
        """Replace row i by row `rows[i]`."""
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def join(self, other: "PackedMemory") -> "PackedMemory":
        """This memory with the rows and sources of `other` after its own; both must not be used any more."""
        mine = self if self.end + other.end <= len(self.layers[0][0]) else self._with_room(other.end)
        for pair, others in zip(mine.layers, other.layers, strict=True):
            for part, more in zip(pair, others, strict=True):
                part[mine.end : mine.end + other.end] = more[: other.end]
        return replace(
            mine,
            starts=torch.cat((mine.starts, other.starts + mine.end)),
            lengths=torch.cat((mine.lengths, other.lengths)),
            longest=max(mine.longest, other.longest),
            end=mine.end + other.end,
        )

    def _with_room(self, count: int) -> "PackedMemory":
        """The sources of the rows alone, with room for at least `count` positions after them."""
        old, place = self.starts.unique(return_inverse=True)
        lengths = torch.zeros_like(old).scatter(0, place, self.lengths)
        new = lengths.cumsum(0) - lengths
        end = int(lengths.sum())
        kept = (old - new).repeat_interleave(lengths) + torch.arange(end)
        layers = []
        for pair in self.layers:
            parts = [part.new_empty(2 * (end + count), part.size(1)) for part in pair]
            for part, whole in zip(parts, pair, strict=True):
                part[:end] = whole[kept]
            layers.append((parts[0], parts[1]))
        longest = int(lengths.max()) if len(lengths) else 0
        return replace(self, layers=layers, starts=new[place], longest=longest, end=end)


def packed(cache: DecoderCache) -> PackedMemory:
    """The memory of `cache` without its masked positions."""
    seen = cache.memory_mask[:, 0, 0]
    layers = [
        (memory.key.transpose(1, 2)[seen].flatten(1), memory.value.transpose(1, 2)[seen].flatten(1))
        for memory in cache.memories
    ]
    lengths = seen.sum(dim=1)
    return PackedMemory(layers, lengths.cumsum(0) - lengths, lengths, seen.size(1), int(lengths.sum()))
