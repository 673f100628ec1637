"""What rows look at when their keys stay where they are is what they look at when keys move with them."""

import pytest
import torch

from regard.fast.slot_cache import CAPACITY, SlotCache, packed
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
    """As a kernel does it: this position's keys in the slots of their rows, which the table then tells."""
    rows = parts[0].key.size(0)
    slots.make_room(rows, LAYERS, WIDTH)
    for number, pair in enumerate(parts):
        slots.keys[number][slots.length, :rows] = pair.key.flatten(1)
        slots.values[number][slots.length, :rows] = pair.value.flatten(1)
    slots.table[:, slots.length] = torch.arange(rows, dtype=torch.int32)
    slots.length += 1


def seen(held, table, length):
    """Of each row what is in its slots."""
    return held[torch.arange(length), table[:, :length].long()]


def agree(slots, cache):
    """On what each row has read, and on what it may see of a memory."""
    assert slots.length == cache.length
    for number, layer in enumerate(layers_of(cache)) if cache.length else ():
        for held, plain in zip((slots.keys, slots.values), layer.held_pair(), strict=True):
            found = seen(held[number], slots.table, slots.length)
            assert torch.equal(found, plain.transpose(1, 2).flatten(2))
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
    return StackCache(LAYERS)


def with_memory():
    return memory([3, 7, 1, 4], 9)


@pytest.mark.parametrize("made", [stack, with_memory])
@pytest.mark.parametrize("before", [0, 1, 5, CAPACITY, CAPACITY + 1])
def test_it_continues_like_the_cache_it_was_made_from(made, before):
    torch.manual_seed(before)
    cache = made()
    if before:
        read(cache, new(4, before))
    slots = SlotCache.of(cache)
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
    slots, rows = SlotCache.of(cache), 4
    for number in range(2 * CAPACITY + 9):
        parts = new(rows)
        read(cache, parts)
        step(slots, parts)
        if number % 4 == 1:
            chosen = torch.randint(rows, (int(torch.randint(1, 9, ())),))
            cache, slots, rows = cache.select(chosen), slots.select(chosen), len(chosen)
        agree(slots, cache)
    assert slots.keys[0].size(0) > 2 * CAPACITY


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


def test_a_memory_is_packed_without_what_may_not_be_looked_at():
    """Wherever the padding is."""
    cache = memory([9, 9], 9)
    cache.memory_mask = torch.rand(2, 1, 1, 9) < 0.6
    held = packed(cache)
    for parts, plain in zip(held.layers, cache.memories, strict=True):
        for row in range(2):
            places = cache.memory_mask[row, 0, 0]
            own = slice(int(held.starts[row]), int(held.starts[row] + held.lengths[row]))
            assert torch.equal(parts[0][own], plain.key[row][:, places].transpose(0, 1).flatten(1))
            assert torch.equal(parts[1][own], plain.value[row][:, places].transpose(0, 1).flatten(1))
