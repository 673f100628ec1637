"""Packed pairs hold what a padded batch holds, and every position belongs to a row."""

import numpy as np
import pytest
import torch

from regard.data.batch import IGNORED, collate
from regard.data.packed_pairs import SHORTEST_TILE, packed_pairs
from regard.training.prefetch import prepared_for_gpu

PAD = 0


def batch_of(lengths, seed=0):
    """Pairs of these lengths, before bos and eos."""
    random = np.random.default_rng(seed)
    sources = [np.append(random.integers(4, 50, length), 3) for length, _ in lengths]
    targets = [np.concatenate([[2], random.integers(4, 50, length), [3]]) for _, length in lengths]
    return collate(sources, targets, np.arange(1, len(lengths) + 1), pad_id=PAD)


def packed(batch, longest=128):
    return packed_pairs(
        batch.src_ids, batch.src_lengths, batch.tgt_ids, batch.tgt_lengths,
        pad_id=PAD, ignored=IGNORED, longest=longest,
    )  # fmt: skip


def cases():
    random = np.random.default_rng(1)
    yield [(3, 5)]
    yield [(0, 0), (7, 1)]
    yield [(62, 1)] * 2  # 126 of 128 tokens: a row of two fills up
    yield [(63, 62)]  # 64 tokens: nothing fills up
    for count, most in ((20, 12), (300, 20), (90, 100)):
        yield random.integers(0, most, (count, 2)).tolist()


@pytest.mark.parametrize("lengths", [*cases()], ids=lambda lengths: f"{len(lengths)} pairs")
def test_the_rows_are_those_of_the_batch(lengths):
    batch = batch_of(lengths)
    found = packed(batch)
    sides = (
        (found.source, batch.src_ids, batch.src_lengths),
        (found.target, batch.tgt_input, batch.tgt_lengths - 1),
    )
    for tokens, ids, counts in sides:
        assert len(tokens.bounds) == found.sizes.rows + 1
        for row, count in enumerate(counts):
            first, end = tokens.bounds[row : row + 2]
            assert torch.equal(tokens.ids[first:end], ids[row, :count])
            assert torch.equal(tokens.positions[first:end], torch.arange(count))
    ends = found.target.bounds
    for row, count in enumerate(batch.tgt_lengths - 1):
        assert torch.equal(found.labels[ends[row] : ends[row + 1]], batch.labels[row, :count])
    assert found.num_targets.tolist() == [batch.num_targets]


@pytest.mark.parametrize("lengths", [*cases()], ids=lambda lengths: f"{len(lengths)} pairs")
def test_what_fills_up_is_in_rows_that_are_not_too_long_and_have_no_labels(lengths):
    batch, found = batch_of(lengths), packed(batch_of(lengths))
    longest = int(torch.cat([batch.src_lengths, batch.tgt_lengths - 1]).max())
    assert found.sizes.longest == max(SHORTEST_TILE, 2 ** (longest - 1).bit_length())
    for tokens, size in ((found.source, found.sizes.src_tokens), (found.target, found.sizes.tgt_tokens)):
        assert len(tokens.ids) == len(tokens.positions) == size
        assert tokens.bounds[0] == 0
        assert tokens.bounds[-1] == size
        assert tokens.bounds.diff().min() >= 0
        assert tokens.bounds.diff().max() <= found.sizes.longest
        filled = slice(tokens.bounds[len(lengths)], None)
        assert not tokens.positions[filled].any()
        assert (tokens.ids[filled] == PAD).all()
    assert (found.labels[found.target.bounds[len(lengths)] :] == IGNORED).all()


def test_labels_that_are_padding_do_not_count():
    batch = batch_of([(3, 4), (2, 2)])
    batch.tgt_ids[0, 2] = PAD
    found = packed(batch)
    assert found.labels[1] == IGNORED
    assert found.num_targets.tolist() == [batch.num_targets - 1]


def test_batches_of_a_corpus_have_few_sizes():
    random, sizes = np.random.default_rng(0), []
    for longest in random.integers(20, 60, 200):
        count = 4096 // longest
        sizes.append(packed(batch_of(random.integers(longest - 5, longest, (count, 2)).tolist())).sizes)
    assert len(set(sizes)) <= 12
    assert all(size.tgt_tokens % 64 == 0 for size in sizes)


@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 1000, 24_000, 25_000])
def test_few_tokens_are_added(tokens):
    batch = batch_of([(0, 99)] * (tokens // 100) + [(0, tokens % 100)])
    found = packed(batch).sizes.tgt_tokens
    real = int((batch.tgt_lengths - 1).sum())
    assert real <= found <= max(real + 63, 1.13 * real)


def test_rows_that_are_too_long_are_not_packed():
    assert packed(batch_of([(127, 3)])) is not None
    assert packed(batch_of([(128, 3)])) is None
    assert packed(batch_of([(3, 128), (1, 1)])) is None
    assert packed(batch_of([(31, 3)]), longest=32) is not None
    assert packed(batch_of([(32, 3)]), longest=32) is None


def test_a_prepared_batch_has_its_packed_pairs_until_it_is_halved():
    prepared = prepared_for_gpu(batch_of([(3, 4), (2, 2), (9, 1)]), PAD)
    assert torch.equal(prepared.packed.numbers, packed(prepared).numbers)
    moved = prepared.to("meta")
    assert moved.packed.numbers.device.type == moved.src_ids.device.type == "meta"
    assert moved.packed.sizes == prepared.packed.sizes
    assert all(half.packed is None and half.targets is None for half in prepared.halves())
    assert set(prepared.tensors()) == {"src_ids", "src_lengths", "tgt_ids", "tgt_lengths", "lines"}
