"""A key-value cache indexed by slot: selecting rows changes a table of slots, and copies no keys.

A beam changes which hypothesis is in which row at every step. In `layers.cache` that copies keys and values;
here it copies rows of a table of integers. Each row has a length of its own, so that rows join and leave at
any step. Rows of one source share its memory.
"""

import torch
from jaxtyping import Bool, Float, Int32, Int64
from torch import Tensor

from regard.fast.packed_memory import PackedMemory, packed
from regard.layers.cache import DecoderCache, StackCache

CAPACITY = 32  # positions of each row for which memory is allocated at first
FREED = 4  # memory is given back when it could hold more than this multiple of what is in use


class SlotCache:
    """Keys and values of a decoder's self-attentions, and of its memory if there is one.

    `lengths` is the number of positions that each row has read, and `held` how many of the last of them are
    stored. A slot is the place of one position: that of the stored position p of row i is `table[i, p]`.
    `keys` and `values` have one tensor a layer. With a `window` only the last `window` positions can be
    attended to. A slot is used again when no row can attend to it any more.
    """

    def __init__(self, memory: PackedMemory | None = None, window: int | None = None, rows: int = 0) -> None:
        """An empty cache of `rows` rows; with a memory, of the memory's rows."""
        rows = rows if memory is None else len(memory.starts)
        self.lengths: Int64[Tensor, " rows"] = torch.zeros(rows, dtype=torch.int64)
        self.held: Int64[Tensor, " rows"] = torch.zeros(rows, dtype=torch.int64)
        self.keys: list[Float[Tensor, "slots features"]] = []
        self.values: list[Float[Tensor, "slots features"]] = []
        self.table: Int32[Tensor, "rows capacity"] = torch.zeros(rows, 0, dtype=torch.int32)
        self.memory, self.window = memory, window
        self._free: Int32[Tensor, " free"] = torch.zeros(0, dtype=torch.int32)

    @classmethod
    def of(cls, cache: StackCache | DecoderCache, window: int | None = None, rows: int = 0) -> "SlotCache":
        """`cache` converted to slots; `cache` must not be used any more. `rows`: of an empty `StackCache`."""
        made = cls(packed(cache) if isinstance(cache, DecoderCache) else None, window, rows)
        layers = cache.layers if isinstance(cache, StackCache) else cache.targets
        if layers[0].length:
            pairs = [layer.held_pair() for layer in layers]
            made.keys = [_by_position(pair.key) for pair in pairs]
            made.values = [_by_position(pair.value) for pair in pairs]
            rows, positions = pairs[0].key.size(0), pairs[0].key.size(2)
            made.lengths = torch.full((rows,), layers[0].length)
            made.held = torch.full((rows,), positions)
            slots = torch.arange(positions * rows, dtype=torch.int32)
            made.table = slots.view(positions, rows).T.contiguous()
        return made

    @property
    def length(self) -> int:
        """The greatest number of positions that a row has read."""
        return int(self.lengths.max()) if len(self.lengths) else 0

    @property
    def size(self) -> int:
        """The number of slots."""
        return self.keys[0].size(0) if self.keys else 0

    @property
    def begins(self) -> Int64[Tensor, " rows"]:
        """The first stored position to which the next one of each row can attend."""
        return self.begins_of(self.held)

    def begins_of(self, positions: Int64[Tensor, " rows"]) -> Int64[Tensor, " rows"]:
        """The first stored position to which each of these can attend."""
        if self.window is None:
            return torch.zeros_like(positions)
        return (positions + 1 - self.window).clamp(min=0)

    def make_room(self, layers: int, features: int, steps: int = 1) -> Int32[Tensor, "steps rows"]:
        """Slots for `steps` more positions of each row; the table gets columns for them."""
        self._allocate(layers, features)
        while int(self.held.max()) + steps > self.table.size(1):
            self._widen()
        count = steps * len(self.lengths)
        if len(self._free) < count:
            self._free_unused(count)
        return self._free[:count].view(steps, -1)

    def advance(self, steps: int = 1) -> None:
        """Each row has read `steps` more positions, whose slots are in the table."""
        self._free = self._free[steps * len(self.lengths) :]
        self.lengths = self.lengths + steps
        self.held = self.held + steps

    def select(
        self, rows: Int64[Tensor, " rows"], *, in_table: Int64[Tensor, " rows"] | None = None
    ) -> "SlotCache":
        """Replace row i by row `rows[i]`. `in_table`: where their slots are, if the table has changed."""
        self.lengths, self.held = self.lengths[rows], self.held[rows]
        most = max(CAPACITY, int(self.held.max())) if len(rows) else 0
        table = self.table if self.table.size(1) <= FREED * most else self.table[:, : 2 * most]
        self.table = table.index_select(0, rows if in_table is None else in_table)
        if self.memory is not None:
            self.memory = self.memory.select(rows)
        return self

    def join(self, other: "SlotCache") -> "SlotCache":
        """This cache with the rows of `other` after its own; neither must be used any more."""
        if not len(self.lengths):
            return other
        if other.keys:
            self._allocate(len(other.keys), other.keys[0].size(1))
            used = other._used().nonzero()[:, 0]
            slots = self._take(len(used))
            for mine, others in zip((*self.keys, *self.values), (*other.keys, *other.values), strict=True):
                mine[slots] = others[used]
            moved = torch.zeros(other.size, dtype=torch.int32)
            moved[used] = slots
            other.table = moved[other.table]
        width = max(self.table.size(1), other.table.size(1))
        self.table = torch.cat([_padded(each.table, width) for each in (self, other)])
        self.lengths, self.held = (
            torch.cat(both) for both in ((self.lengths, other.lengths), (self.held, other.held))
        )
        if self.memory is not None:
            assert other.memory is not None
            self.memory = self.memory.join(other.memory)
        return self

    def cut(self, length: int) -> None:
        """Keep the first `length` positions of each row only.

        Raises:
            ValueError: positions to which the next one can attend have been dropped.
        """
        needed = 0 if self.window is None else max(0, length + 1 - self.window)
        first = self.lengths - self.held
        if not bool((first <= min(needed, length)).all() and (length <= self.lengths).all()):
            raise ValueError(f"{self.length} positions cannot be cut to {length}")
        self.lengths, self.held = torch.full_like(self.lengths, length), length - first

    def _allocate(self, layers: int, features: int) -> None:
        if not self.keys:
            self.keys = [torch.empty(0, features) for _ in range(layers)]
            self.values = [torch.empty(0, features) for _ in range(layers)]

    def _take(self, count: int) -> Int32[Tensor, " count"]:
        """So many free slots."""
        if len(self._free) < count:
            self._free_unused(count)
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def _free_unused(self, count: int) -> None:
        """Find the slots that no row can attend to; allocate more if they are less than half, or `count`."""
        used = self._used()
        free = (~used).nonzero()[:, 0]
        num_used = len(used) - len(free)
        wanted = max(2 * num_used, num_used + count, CAPACITY * len(self.lengths))
        if len(free) < count or 2 * len(free) < len(used) or FREED * wanted < len(used):
            free = self._reallocate(used, wanted)
        self._free = free.int()

    def _reallocate(self, used: Bool[Tensor, " slots"], size: int) -> Int64[Tensor, " free"]:
        """Move the used slots to the beginning of a new memory. Returns the free ones after them."""
        kept = used.nonzero()[:, 0]
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                tensors[layer] = new = old.new_empty(size, old.size(1))
                new[: len(kept)] = old if len(kept) == len(old) else old[kept]
        if len(kept):
            self.table = (used.cumsum(0, dtype=torch.int32) - 1)[self.table]
        return torch.arange(len(kept), size)

    def _used(self) -> Bool[Tensor, " slots"]:
        """True for each slot that the next position of a row can attend to."""
        positions = torch.arange(self.table.size(1))
        seen = (positions >= self.begins[:, None]) & (positions < self.held[:, None])
        used = torch.zeros(self.size, dtype=torch.bool)
        used[self.table[seen]] = True
        return used

    def _widen(self) -> None:
        """Add columns to the table, or drop the positions before the windows if they are half of it."""
        begins, width = self.begins, self.table.size(1)
        if 2 * int(begins.max()) > width:
            places = (begins[:, None] + torch.arange(width)).clamp(max=width - 1)
            self.table = self.table.gather(1, places)
            self.held = self.held - begins
        else:
            self.table = _padded(self.table, max(CAPACITY, 2 * width))


def _padded(table: Int32[Tensor, "rows capacity"], width: int) -> Int32[Tensor, "rows width"]:
    return torch.nn.functional.pad(table, (0, width - table.size(1)))


def _by_position(held: Float[Tensor, "rows kv_heads seen d_head"]) -> Float[Tensor, "slots features"]:
    return held.permute(2, 0, 1, 3).flatten(2).flatten(0, 1).contiguous()
