"""Caches give back what was put in, row by row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.layers.cache import DecoderCache, KeyValue, KeyValueCache, StackCache, moved


@given(chunks=st.lists(st.integers(1, 9), min_size=1, max_size=8), capacity=st.integers(1, 4))
def test_a_cache_gives_back_all_it_was_given_in_order(chunks, capacity):
    key, value = torch.randn(2, 3, sum(chunks), 4), torch.randn(2, 3, sum(chunks), 5)
    cache, start = KeyValueCache(capacity), 0
    for chunk in chunks:
        end = start + chunk
        seen = cache.append(key[:, :, start:end], value[:, :, start:end])
        assert cache.length == end
        assert torch.equal(seen.key, key[:, :, :end])
        assert torch.equal(seen.value, value[:, :, :end])
        start = end


def test_room_doubles_so_that_growing_is_cheap():
    cache, capacities = KeyValueCache(), set()
    for _ in range(200):
        seen = cache.append(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
        capacities.add(seen.key.untyped_storage().nbytes() // 4)
    assert capacities == {16, 32, 64, 128, 256}


rows = st.lists(st.integers(0, 3), min_size=1, max_size=9)


@given(data=st.data(), have=st.integers(1, 12), kept=st.integers(0, 12))
def test_rows_moved_in_place_are_rows_copied(data, have, kept):
    """Few changes go one way and many the other; sources may be overwritten by other changes."""
    given_rows = torch.arange(kept) % have
    for place in data.draw(st.lists(st.integers(0, max(kept - 1, 0)), max_size=4)) if kept else []:
        given_rows[place] = data.draw(st.integers(0, have - 1))
    before = [torch.randn(have, 3), torch.randn(have, 2, 2)]
    after = moved([tensor.clone() for tensor in before], given_rows)
    assert all(torch.equal(new, old[given_rows]) for new, old in zip(after, before, strict=True))


@given(rows=rows)
def test_selected_rows_are_dropped_repeated_and_reordered(rows):
    key, more = torch.randn(4, 2, 3, 5), torch.randn(len(rows), 2, 1, 5)
    cache = KeyValueCache()
    cache.append(key, -key)
    cache.select(torch.tensor(rows))
    seen = cache.append(more, -more)
    assert torch.equal(seen.key, torch.cat([key[rows], more], dim=2))
    assert torch.equal(seen.value, -seen.key)


@given(chunks=st.lists(st.integers(1, 9), min_size=1, max_size=9), window=st.integers(1, 12))
def test_a_windowed_cache_holds_what_the_next_query_may_see(chunks, window):
    key = torch.randn(2, 3, sum(chunks), 4)
    cache, start = KeyValueCache(2, window), 0
    for chunk in chunks:
        held = min(start, window - 1)
        assert cache.held == held
        end = start + chunk
        seen = cache.append(key[:, :, start:end], -key[:, :, start:end])
        assert cache.length == end
        assert torch.equal(seen.key, key[:, :, start - held : end])
        assert torch.equal(seen.value, -seen.key)
        start = end


def test_a_windowed_cache_does_not_grow_with_the_text():
    cache, capacities = KeyValueCache(window=10), set()
    for _ in range(500):
        seen = cache.append(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
        capacities.add(seen.key.untyped_storage().nbytes() // 4)
    assert capacities == {16, 32}


@given(rows=rows, window=st.sampled_from([None, 2]))
def test_all_layers_of_a_stack_follow_the_selected_rows(rows, window):
    start = torch.arange(4.0)[:, None, None, None]
    cache = StackCache([None, window, window])
    assert cache.select(torch.tensor([5])) is cache  # it has read nothing: any number of rows may follow
    for layer in cache.layers:
        layer.append(start, start)
    cache.select(torch.tensor(rows))
    for layer in cache.layers:
        seen = layer.append(torch.zeros(len(rows), 1, 1, 1), torch.zeros(len(rows), 1, 1, 1))
        assert seen.key[:, 0, 0, 0].tolist() == rows
    assert cache.length == 2
    assert [layer.held for layer in cache.layers] == [2, *([2, 2] if window is None else [1, 1])]


def test_an_empty_cache_can_be_selected_from():
    cache = KeyValueCache()
    cache.select(torch.tensor([1, 1]))
    assert cache.append(torch.ones(2, 1, 1, 1), torch.ones(2, 1, 1, 1)).key.shape == (2, 1, 1, 1)


@given(selections=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), max_size=4))
def test_a_decoder_cache_keeps_each_row_with_its_own_memory(selections):
    memory = KeyValue(torch.randn(4, 2, 3, 5), torch.randn(4, 2, 3, 5))
    mask = torch.rand(4, 1, 1, 3) < 0.5
    cache = DecoderCache([KeyValue(memory.key.clone(), memory.value.clone())], mask)
    start = torch.arange(4.0)[:, None, None, None]
    cache.targets[0].append(start, start)
    origin = torch.arange(4)
    for selection in selections:
        rows = torch.tensor(selection) % len(origin)
        assert cache.select(rows) is cache
        origin = origin[rows]
    assert torch.equal(cache.memories[0].key, memory.key[origin])
    assert torch.equal(cache.memories[0].value, memory.value[origin])
    assert torch.equal(cache.memory_mask, mask[origin])
    empty = torch.empty(len(origin), 1, 0, 1)
    assert cache.targets[0].append(empty, empty).key.flatten().tolist() == origin.tolist()


def test_beams_that_change_places_leave_the_memory_of_their_sentence_where_it_is():
    memory = KeyValue(torch.randn(2, 2, 3, 5), torch.randn(2, 2, 3, 5))
    cache = DecoderCache([memory.contiguous()], torch.ones(2, 1, 1, 3, dtype=torch.bool))
    cache.select(torch.tensor([0, 0, 1, 1]))
    before = cache.memories[0].key.data_ptr()
    cache.select(torch.tensor([1, 0, 3, 3]))
    assert cache.memories[0].key.data_ptr() == before
    cache.select(torch.tensor([2, 3]))
    assert torch.equal(cache.memories[0].key, memory.key[[1, 1]])


def test_layers_of_a_stack_are_cut_together_or_not_at_all():
    cache, new = StackCache([None, 3]), torch.zeros(1, 1, 1, 1)
    for _ in range(6):
        for layer in cache.layers:
            layer.append(new, new)
    with pytest.raises(ValueError, match="6 positions cannot be cut to 2"):
        cache.cut(2)
    assert [layer.length for layer in cache.layers] == [6, 6]
    cache.cut(5)
    assert [layer.length for layer in cache.layers] == [5, 5]
