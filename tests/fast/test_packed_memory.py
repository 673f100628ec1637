"""A memory holds the sources of its rows without padding, whatever joins and leaves."""

import random

import torch

from regard.fast.packed_memory import packed
from regard.layers.cache import DecoderCache, KeyValue

LAYERS, HEADS, D_HEAD = 2, 3, 4


def memory(lengths, width):
    """Of a batch whose sources are so long."""
    memories = [KeyValue(*torch.randn(2, len(lengths), HEADS, width, D_HEAD)) for _ in range(LAYERS)]
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return DecoderCache(memories, mask[:, None, None])


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


def test_sources_join_and_leave_and_the_others_keep_theirs():
    """Rows are repeated and dropped; the memory of those that have left is used again."""
    random_ = random.Random(1)
    held, known = None, []
    for _ in range(300):
        new = [random_.randrange(1, 9) for _ in range(random_.randrange(1, 4))]
        cache = memory(new, 9)
        joining = packed(cache)
        held = joining if held is None else held.join(joining)
        known += [cache.memories[1].value[row, :, :length] for row, length in enumerate(new)]
        rows = [row for row in range(len(known)) for _ in range(random_.randrange(3))][:10]
        held, known = held.select(torch.tensor(rows, dtype=torch.int64)), [known[row] for row in rows]
        for row, value in enumerate(known):
            found = held.layers[1][1][held.starts[row] : held.starts[row] + held.lengths[row]]
            assert torch.equal(found, value.transpose(0, 1).flatten(1))
        assert held.end <= len(held.layers[0][0]) <= 2 * (10 * 9 + 3 * 9)
