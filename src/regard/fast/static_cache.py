"""A key-value cache in memory that stays where it is: what a CUDA graph needs to be replayed.

A row of the cache has a place in the memory. Selecting rows changes which place belongs to which row, and
copies keys and values only for a row that is repeated. Each row has a length of its own.
"""

import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.layers.cache import DecoderCache, StackCache

LEAST_PLACES, LEAST_POSITIONS, LEAST_SOURCE = 16, 64, 32
MOST_UNUSED = 4  # a free memory is reused up to this multiple of the needed size, since it must be cleared
UNUSED = -1  # the source of a place that has read none


@dataclass(frozen=True)
class Size:
    """How many rows a memory has places for, and how many positions of the target and the source of each."""

    places: int
    positions: int
    source: int  # 0 without an encoder

    @property
    def total(self) -> int:
        """The positions of all places."""
        return self.places * (self.positions + self.source)

    def holds(self, other: "Size") -> bool:
        """True if everything that fits into the other fits into this."""
        return (
            self.places >= other.places and self.positions >= other.positions and self.source >= other.source
        )

    def with_(self, other: "Size") -> "Size":
        """The smallest size that holds both."""
        return Size(
            max(self.places, other.places),
            max(self.positions, other.positions),
            max(self.source, other.source),
        )

    def rounded(self, limit: int | None) -> "Size":
        """The next powers of two, so that a cache that grows seldom moves; `limit`: of positions."""
        positions = _power_of_two(self.positions, LEAST_POSITIONS)
        return Size(
            _power_of_two(self.places, LEAST_PLACES),
            positions if limit is None else max(self.positions, min(positions, limit)),
            _power_of_two(self.source, LEAST_SOURCE) if self.source else 0,
        )


@dataclass(frozen=True)
class Heads:
    """What the self-attentions of a stack store at each position."""

    layers: int
    kv_heads: int
    d_head: int
    dtype: torch.dtype
    device: torch.device


class StaticMemory:
    """Keys and values of all layers at all places, and what a step reads besides them.

    Positions that no row has written are zeros: a weight of 0 times a number that is not finite is not 0.
    """

    def __init__(self, heads: Heads, size: Size) -> None:
        self.size = size
        options: dict[str, Any] = {"dtype": heads.dtype, "device": heads.device}
        shape = (heads.layers, 2, size.places, heads.kv_heads)
        with torch.inference_mode(False):
            self.targets: Float[Tensor, "layers 2 places kv_heads positions d_head"] = torch.zeros(
                *shape, size.positions, heads.d_head, **options
            )
            self.sources: Float[Tensor, "layers 2 places kv_heads source d_head"] = torch.zeros(
                *shape, size.source, heads.d_head, **options
            )
            numbers = torch.zeros(4, size.places, dtype=torch.int64, device=heads.device)
        self.asked: Int64[Tensor, "2 places"] = numbers[:2]  # the last ids, and others whose scores are asked
        self.lengths: Int64[Tensor, " places"] = numbers[2]  # positions that have been read
        self.source_lengths: Int64[Tensor, " places"] = numbers[3]
        self.graphs: dict[Any, Any] = {}  # of a step, by its shape; what they compute is in `pool`
        self.pool: Any = torch.cuda.graph_pool_handle() if heads.device.type == "cuda" else None

    def clear(self) -> None:
        """Forget what was read."""
        for tensor in (self.targets, self.sources, self.lengths, self.source_lengths):
            tensor.zero_()


@dataclass
class StaticMemories:
    """The memories of a model's caches. One that a cache has given back is used again, with its graphs."""

    heads: Heads
    limit: int | None  # no row has more positions
    _free: list[StaticMemory] = field(default_factory=list)
    # a cache may be freed, and give its memory back, within any call of its thread
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def take(self, size: Size) -> StaticMemory:
        """A memory of at least this size."""
        rounded = size.rounded(self.limit)
        with self._lock:
            fitting = [
                memory
                for memory in self._free
                if memory.size.holds(size) and memory.size.total <= MOST_UNUSED * rounded.total
            ]
            if fitting:
                memory = min(fitting, key=lambda each: each.size.total)
                self._free.remove(memory)
                memory.clear()
                return memory
            self._free = [memory for memory in self._free if not rounded.holds(memory.size)]
        try:
            return StaticMemory(self.heads, rounded)
        except torch.OutOfMemoryError:
            pass  # what was allocated in vain is freed after this block
        with self._lock:
            self._free.clear()
        return StaticMemory(self.heads, rounded)

    def give_back(self, memory: StaticMemory) -> None:
        """Take back a memory that is not used any more."""
        with self._lock:
            self._free.append(memory)


class StaticCache:
    """The cache of some rows: row i is at place `places[i]` of the memory.

    `lengths` is the number of positions that each row has read.
    """

    def __init__(self, memories: StaticMemories, size: Size) -> None:
        """An empty cache of `size.places` rows with room for `size.positions` more positions."""
        self._memories = memories
        self._hold(memories.take(size))
        self.places: Int64[np.ndarray, " rows"] = np.arange(size.places)
        self.lengths: Int64[np.ndarray, " rows"] = np.zeros(size.places, np.int64)
        self.source = size.source  # no source is longer
        self._source_of = np.full(self.memory.size.places, UNUSED)  # which source a place has read
        self._source_of[: size.places] = np.arange(size.places)
        self._sources = size.places  # how many sources there have been

    def _hold(self, memory: StaticMemory) -> None:
        """Use this memory, and give it back when this cache is freed."""
        self.memory = memory
        self._release = weakref.finalize(self, self._memories.give_back, memory)
        self._release.atexit = False

    @classmethod
    def of(cls, cache: StackCache | DecoderCache, memories: StaticMemories, rows: int) -> "StaticCache":
        """`cache` copied into a memory; `rows`: of an empty `StackCache`."""
        layers = cache.layers if isinstance(cache, StackCache) else cache.targets
        source = cache.memory_mask.size(-1) if isinstance(cache, DecoderCache) else 0
        length = layers[0].length
        if isinstance(cache, DecoderCache):
            rows = len(cache.memory_mask)
        elif length:
            rows = layers[0].held_pair().key.size(0)
        made = cls(memories, Size(rows, length + 1, source))
        if length:
            for stored, layer in zip(made.memory.targets, layers, strict=True):
                for part, held in zip(stored, layer.held_pair(), strict=True):
                    part[:rows, :, length - held.size(2) : length] = held
        if isinstance(cache, DecoderCache):
            for stored, memory in zip(made.memory.sources, cache.memories, strict=True):
                for part, held in zip(stored, memory, strict=True):
                    part[:rows, :, :source] = held
            made.memory.source_lengths[:rows] = cache.memory_mask[:, 0, 0].sum(dim=-1)
        made.lengths[:] = length
        made.memory.lengths[:rows] = length
        return made

    @property
    def length(self) -> int:
        """The greatest number of positions that a row has read."""
        return int(self.lengths.max(initial=0))

    @property
    def used(self) -> Size:
        """The part of the memory that a step of these rows reads, its own position included."""
        return Size(int(self.places.max(initial=0)) + 1, self.length + 1, self.source)

    def make_room(self) -> None:
        """Room for one more position of each row."""
        self._require(self.used)

    def advance(self) -> None:
        """Each row has read one position more; a step has counted it in the memory."""
        self.lengths = self.lengths + 1

    def select(self, rows: Int64[Tensor, " new_rows"]) -> "StaticCache":
        """Row i becomes what row `rows[i]` was, in place. `rows` are on the host."""
        chosen = rows.numpy()
        wanted = self.places[chosen]
        places = np.full(len(chosen), UNUSED)
        _, first = np.unique(wanted, return_index=True)
        places[first] = wanted[first]
        again = np.flatnonzero(places == UNUSED)
        if len(again):
            self._require(Size(len(chosen), 0, 0))
            free = np.setdiff1d(np.arange(self.memory.size.places), places[first])
            places[again] = self._nearest(self._source_of[wanted[again]], free)
            self._copy(wanted[again], places[again], int(self.lengths.max(initial=0)))
        self.places, self.lengths = places, self.lengths[chosen]
        self._close_up()
        return self

    def join(self, other: "StaticCache") -> "StaticCache":
        """This cache with the rows of `other` after its own; neither must be used any more."""
        if not len(self.places):
            return other
        count, length = len(other.places), other.length
        source = max(self.source, other.source)
        self._require(Size(len(self.places) + count, max(self.length, length) + 1, source))
        self.source = source
        free = np.setdiff1d(np.arange(self.memory.size.places), self.places)[:count]
        here, there = self._on_device(free), self._on_device(other.places)
        mine, others = self.memory, other.memory
        mine.targets[:, :, here, :, :length] = others.targets[:, :, there, :, :length]
        mine.sources[:, :, here, :, : other.source] = others.sources[:, :, there, :, : other.source]
        mine.lengths[here] = others.lengths[there]
        mine.source_lengths[here] = others.source_lengths[there]
        self._source_of[free] = self._sources + other._source_of[other.places]
        self._sources += other._sources
        self.places = np.concatenate((self.places, free))
        self.lengths = np.concatenate((self.lengths, other.lengths))
        return self

    def cut(self, length: int) -> None:
        """Keep the first `length` positions of each row only.

        Raises:
            ValueError: a row has fewer.
        """
        if not 0 <= length <= int(self.lengths.min(initial=length)):
            raise ValueError(f"{self.length} positions cannot be cut to {length}")
        self.lengths = np.full_like(self.lengths, length)
        self.memory.lengths.fill_(length)

    def _require(self, size: Size) -> None:
        """Move to a larger memory unless this one holds so much."""
        old = self.memory
        if old.size.holds(size):
            return
        self._release.detach()
        self._hold(self._memories.take(size.with_(old.size)))
        places, length, source = old.size.places, self.length, self.source
        self.memory.targets[:, :, :places, :, :length] = old.targets[:, :, :, :, :length]
        self.memory.sources[:, :, :places, :, :source] = old.sources[:, :, :, :, :source]
        self.memory.lengths[:places] = old.lengths
        self.memory.source_lengths[:places] = old.source_lengths
        more = self.memory.size.places - len(self._source_of)
        self._source_of = np.pad(self._source_of, (0, more), constant_values=UNUSED)
        self._memories.give_back(old)

    def _nearest(self, wanted: Int64[np.ndarray, " new"], free: Int64[np.ndarray, " free"]) -> list[int]:
        """A free place for each: one that has read the wanted source if there is one, else the lowest."""
        by_source: dict[int, list[int]] = {}
        for place, source in zip(free.tolist(), self._source_of[free].tolist(), strict=True):
            by_source.setdefault(source, []).append(place)
        found = [by_source[source].pop(0) if by_source.get(source) else UNUSED for source in wanted.tolist()]
        rest = iter(sorted(place for places in by_source.values() for place in places))
        return [next(rest) if place == UNUSED else place for place in found]

    def _close_up(self) -> None:
        """Move the last rows to free places if a step would compute many places in vain."""
        rows = len(self.places)
        if not rows or places_of_a_step(rows) >= places_of_a_step(int(self.places.max()) + 1) * 7 // 8:
            return
        far = np.flatnonzero(self.places >= rows)
        free = np.setdiff1d(np.arange(rows), self.places)[: len(far)]
        self._copy(self.places[far], free, self.length)
        self.places = self.places.copy()
        self.places[far] = free

    def _copy(
        self, origin: Int64[np.ndarray, " some"], place: Int64[np.ndarray, " some"], length: int
    ) -> None:
        """Copy what is at each `origin` to the `place` beside it, which is not an origin."""
        source, target = self._on_device(origin), self._on_device(place)
        memory = self.memory
        held = memory.targets[:, :, :, :, :length]
        held.index_copy_(2, target, held.index_select(2, source))
        memory.lengths.index_copy_(0, target, memory.lengths[source])
        other = self._source_of[origin] != self._source_of[place]
        if self.source and other.any():
            source, target = self._on_device(origin[other]), self._on_device(place[other])
            held = memory.sources[:, :, :, :, : self.source]
            held.index_copy_(2, target, held.index_select(2, source))
            memory.source_lengths.index_copy_(0, target, memory.source_lengths[source])
        self._source_of[place] = self._source_of[origin]

    def _on_device(self, places: Any) -> Int64[Tensor, " some"]:
        return torch.as_tensor(places).to(self.memory.lengths.device, non_blocking=True)


def places_of_a_step(rows: int) -> int:
    """How many places a step computes for `rows` rows: one of eight sizes between two powers of two."""
    multiple = max(LEAST_PLACES, _power_of_two(rows, 1) // 8)
    return -(-rows // multiple) * multiple


def _power_of_two(number: int, least: int) -> int:
    return max(least, 1 << (number - 1).bit_length())
