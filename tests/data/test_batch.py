"""Batches: padding is on the right, and lengths, targets and lines match their rows."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batch import collate, pad
from regard.training.prefetch import prepared_for_gpu

sequences = st.lists(st.lists(st.integers(4, 99), max_size=9), max_size=9)


@given(rows=sequences, rows_multiple=st.integers(1, 8), length_multiple=st.integers(1, 16))
def test_padding_is_on_the_right_and_takes_nothing_away(rows, rows_multiple, length_multiple):
    ids, lengths = pad(rows, 0, rows_multiple=rows_multiple, length_multiple=length_multiple)
    assert ids.dtype == lengths.dtype == torch.int64
    assert ids.size(0) % rows_multiple == 0
    assert ids.size(1) % length_multiple == 0
    assert ids.size(0) - len(rows) < rows_multiple
    assert ids.size(1) - max(map(len, rows), default=0) < length_multiple
    assert lengths.tolist() == [len(row) for row in rows] + [0] * (ids.size(0) - len(rows))
    for row, length, kept in zip(ids.tolist(), lengths.tolist(), [*rows, *[[]] * len(ids)], strict=False):
        assert row[:length] == kept
        assert set(row[length:]) <= {0}


def test_a_batch_is_read_one_place_behind_what_it_predicts():
    batch = collate([[7, 3], [5, 6, 3]], [[2, 8, 9, 3], [2, 3]], np.array([12, 5]), pad_id=0)
    assert batch.tgt_input.tolist() == [[2, 8, 9], [2, 3, 0]]
    assert batch.labels.tolist() == [[8, 9, 3], [3, 0, 0]]
    assert batch.num_targets == 4 == int((batch.labels != 0).sum())
    assert batch.src_ids.tolist() == [[7, 3, 0], [5, 6, 3]]
    assert batch.src_lengths.tolist() == [2, 3]
    assert batch.lines.tolist() == [12, 5]
    assert len(batch) == 2


def test_a_batch_moves_whole():
    batch = prepared_for_gpu(collate([[3]], [[2, 3]], [1], pad_id=0), 0).to("meta")
    moved = [getattr(batch, field.name) for field in fields(batch) if field.name != "packed"]
    assert {str(tensor.device) for tensor in (*moved, batch.packed.numbers)} == {"meta"}
    assert batch.rows(slice(0, 1)).targets is None, "places of the whole batch are not those of its rows"


def test_a_batch_does_not_change():
    with pytest.raises(AttributeError):
        collate([[3]], [[2, 3]], [1], pad_id=0).src_ids = torch.zeros(1, 1, dtype=torch.int64)


def test_halves_are_the_examples_in_their_order():
    batch = collate([[7, 3], [5, 6, 3], [3]], [[2, 8, 9, 3], [2, 3], [2, 4, 3]], [12, 5, 9], pad_id=0)
    first, last = batch.halves()
    assert (first.lines.tolist(), last.lines.tolist()) == ([12], [5, 9])
    assert first.num_targets + last.num_targets == batch.num_targets
    assert torch.equal(torch.cat([first.tgt_ids, last.tgt_ids]), batch.tgt_ids)
    assert first.halves() is None
