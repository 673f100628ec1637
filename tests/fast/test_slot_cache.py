"""What rows look at when their keys stay where they are is what they look at when keys move with them."""

import pytest
import torch

from regard.fast.slot_cache import CAPACITY, SlotCache
from regard.layers.cache import DecoderCache, KeyValue, StackCache

LAYERS, HEADS, D_HEAD = 2, 3, 4
WIDTH = HEADS * D_HEAD


def new(rows, length=1):
    """Keys and values of new positions, of each layer."""
    return [KeyValue(*torch.randn(2, rows, HEADS, length, D_HEAD)) for _ in range(LAYERS)]


def memory(lengths, width):
    """Of a batch whose sources are so long."""
    memories = [KeyValue(*torch.randn(2, len(lengths), HEADS, width, D_HEAD)) for _ in range(LAYERS)]
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return DecoderCache(memories, mask[:, None, None])


def layers_of(cache):
    return cache.layers if isinstance(cache, StackCache) else cache.targets


def read(cache, parts):
    for layer, pair in zip(layers_of(cache), parts, strict=True):
        layer.append(*pair)


def step(slots, parts):
    """As a kernel does it: this position's keys in free slots, which are entered in the table."""
    taken = slots.make_room(LAYERS, WIDTH)[0]
    for number, pair in enumerate(parts):
        slots.keys[number][taken] = pair.key.flatten(1)
        slots.values[number][taken] = pair.value.flatten(1)
    slots.table[torch.arange(len(taken)), slots.held] = taken
    slots.advance()


def seen(held, slots, row):
    """What is in the slots of a row."""
    return held[slots.table[row, : slots.held[row]]]


def agree(slots, cache):
    """On what each row has read, and on what it may see of a memory."""
    assert (slots.lengths == cache.length).all()
    for number, layer in enumerate(layers_of(cache)) if cache.length else ():
        for held, plain in zip((slots.keys, slots.values), layer.held_pair(), strict=True):
            for row, expected in enumerate(plain.transpose(1, 2).flatten(2)):
                assert torch.equal(seen(held[number], slots, row), expected)
    if isinstance(cache, DecoderCache):
        lengths = cache.memory_mask.sum(dim=-1).flatten()
        assert torch.equal(slots.memory.lengths, lengths)
        assert slots.memory.longest >= lengths.max()
        for parts, plain in zip(slots.memory.layers, cache.memories, strict=True):
            for row, (start, length) in enumerate(zip(slots.memory.starts, lengths, strict=True)):
                for part, whole in zip(parts, plain, strict=True):
                    expected = whole[row, :, :length].transpose(0, 1).flatten(1)
                    assert torch.equal(part[start : start + length], expected)


def stack():
    return StackCache([None] * LAYERS)


def with_memory():
    return memory([3, 7, 1, 4], 9)


@pytest.mark.parametrize("made", [stack, with_memory])
@pytest.mark.parametrize("before", [0, 1, 5, CAPACITY, CAPACITY + 1])
def test_it_continues_like_the_cache_it_was_made_from(made, before):
    torch.manual_seed(before)
    cache = made()
    if before:
        read(cache, new(4, before))
    slots = SlotCache.of(cache, rows=4)
    agree(slots, cache)
    for _ in range(5):
        parts = new(4)
        read(cache, parts)
        step(slots, parts)
        agree(slots, cache)


@pytest.mark.parametrize("made", [stack, with_memory])
@pytest.mark.parametrize("before", [0, 5])
def test_rows_take_along_what_they_have_read(made, before):
    """Repeated, dropped and swapped; fewer and more than at first; over the capacity, more than once."""
    torch.manual_seed(before)
    cache = made()
    if before:
        read(cache, new(4, before))
    slots, rows = SlotCache.of(cache, rows=4), 4
    for number in range(2 * CAPACITY + 9):
        parts = new(rows)
        read(cache, parts)
        step(slots, parts)
        if number % 4 == 1:
            chosen = torch.randint(rows, (int(torch.randint(1, 9, ())),))
            cache, slots, rows = cache.select(chosen), slots.select(chosen), len(chosen)
        agree(slots, cache)
    assert slots.table.size(1) > 2 * CAPACITY


@pytest.mark.parametrize("kept", [0, 1, 6, 40])
def test_what_is_cut_is_forgotten(kept):
    cache = with_memory()
    slots = SlotCache.of(cache)
    chosen = torch.tensor([2, 0, 0])
    parts = [new(4) for _ in range(3)] + [new(3) for _ in range(40)]
    for number, each in enumerate(parts):
        read(cache, each)
        step(slots, each)
        if number == 2:
            cache, slots = cache.select(chosen), slots.select(chosen)
    for other in (cache, slots):
        other.cut(kept)
    agree(slots, cache)
    for _ in range(40):
        each = new(3)
        read(cache, each)
        step(slots, each)
        agree(slots, cache)


def test_rows_may_be_chosen_before_anything_is_read():
    cache = with_memory()
    slots, chosen = SlotCache.of(cache), torch.tensor([1, 1, 3, 0, 1])
    cache, slots = cache.select(chosen), slots.select(chosen)
    agree(slots, cache)
    parts = new(5)
    read(cache, parts)
    step(slots, parts)
    agree(slots, cache)


class Rows:
    """Rows of other lengths, each by itself: what `SlotCache` must tell of them."""

    def __init__(self, window=None):
        self.slots, self.window = SlotCache(None, window), window
        self.keys, self.sources = [], []

    def join(self, lengths, with_memory, generator):
        """Rows that have read so much; with sources of one to nine positions."""
        sources = [int(torch.randint(1, 10, (), generator=generator)) for _ in lengths]
        for length, source in zip(lengths, sources, strict=True):
            cache = memory([source], 9) if with_memory else StackCache([self.window] * LAYERS)
            if length:
                read(cache, new(1, length))
            self.slots = self.slots.join(SlotCache.of(cache, self.window, rows=1))
            held = [layer.held_pair() for layer in layers_of(cache)] if length else []
            self.keys.append([pair.key[0].transpose(0, 1).flatten(1) for pair in held])
            memories = cache.memories if with_memory else []
            self.sources.append([pair.value[0, :, :source].transpose(0, 1).flatten(1) for pair in memories])

    def step(self):
        parts = new(len(self.keys))
        step(self.slots, parts)
        for row, known in enumerate(self.keys):
            latest = [pair.key[row].flatten()[None] for pair in parts]
            self.keys[row] = (
                [torch.cat(both) for both in zip(known, latest, strict=True)] if known else latest
            )

    def select(self, rows):
        self.slots = self.slots.select(torch.tensor(rows, dtype=torch.int64))
        self.keys, self.sources = ([each[row] for row in rows] for each in (self.keys, self.sources))

    def check(self):
        slots, begins = self.slots, self.slots.begins
        for row, (keys, sources) in enumerate(zip(self.keys, self.sources, strict=True)):
            for number, known in enumerate(keys):
                found = seen(slots.keys[number], slots, row)[begins[row] :]
                assert torch.equal(found, known if self.window is None else known[1 - self.window :])
            for number, source in enumerate(sources):
                start = slots.memory.starts[row]
                found = slots.memory.layers[number][1][start : start + slots.memory.lengths[row]]
                assert torch.equal(found, source)


@pytest.mark.parametrize(("with_memory", "window"), [(True, None), (False, None), (False, 7)])
def test_rows_of_other_lengths_join_and_leave(with_memory, window):
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    rows = Rows(window)
    most = 0
    for number in range(700):
        if number % 3 == 0:
            count = int(torch.randint(0, 4, (), generator=generator))
            lengths = [int(torch.randint(0, 30, (), generator=generator)) for _ in range(count)]
            rows.join([0] * count if with_memory else lengths, with_memory, generator)
        if len(rows.keys):
            rows.step()
        times = (torch.rand(len(rows.keys), generator=generator) * 2.15).int().tolist()  # 0, 1 or 2
        rows.select([row for row, count in enumerate(times) for _ in range(count)][:12])
        if number % 10 == 0:
            rows.check()
        most = max(most, int(rows.slots.held.sum()) if len(rows.keys) else 0)
        assert rows.slots.size <= 4 * most + 40 * CAPACITY, "slots are used again"
        if with_memory and rows.slots.memory is not None:
            assert len(rows.slots.memory.layers[0][0]) <= 4 * 12 * 9 + 100, "and so is the memory of sources"


def test_memory_is_given_back_when_long_rows_leave():
    rows = Rows()
    rows.join([3], False, torch.Generator())
    rows.join([5000], False, torch.Generator())
    rows.step()
    assert rows.slots.size > 5000
    rows.select([0])
    for _ in range(12_000):
        step(rows.slots, new(1))
        if rows.slots.size < 1000:
            break
        rows.slots.cut(4)
    assert rows.slots.size < 1000
