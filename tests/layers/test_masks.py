"""Masks: True = may look, in every one of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.layers.masks import (
    causal_mask,
    document_mask,
    padding_mask,
    prefix_mask,
    real_positions,
    window_mask,
)
from regard.layers.scaled_dot_product import attention_weights

sizes = st.integers(1, 9)


def test_real_positions_are_those_before_the_lengths():
    assert real_positions(torch.tensor([2, 0]), 3).tolist() == [[True, True, False], [False] * 3]


def test_the_padding_mask_is_true_on_tokens_and_false_on_padding():
    """A notebook's mask was 1 for padding while its text said 1 for tokens."""
    assert padding_mask(torch.tensor([3, 0, 5]), 5)[:, 0, 0].tolist() == [
        [True, True, True, False, False],
        [False] * 5,
        [True] * 5,
    ]


@given(length=sizes)
def test_a_position_may_look_at_itself_and_back_but_never_ahead(length):
    """A notebook's look-ahead mask was inverted: tokens saw only the future, and not themselves."""
    mask = causal_mask(length)
    assert mask.shape == (1, 1, length, length)
    for query in range(length):
        for key in range(length):
            assert mask[0, 0, query, key] == (key <= query)


def test_under_a_causal_mask_the_first_token_gives_all_its_weight_to_itself():
    weights = attention_weights(torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2), causal_mask(4))
    expected = torch.tensor([[1, 0, 0, 0], [1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [1 / 4] * 4])
    torch.testing.assert_close(weights[0, 0], expected)


@given(tgt_len=sizes, before=sizes, window=sizes)
def test_queries_are_the_last_of_the_positions(tgt_len, before, window):
    """PyTorch's `is_causal` aligns them with the first: with a cache the one query saw only the first key."""
    src_len = before + tgt_len
    assert torch.equal(causal_mask(tgt_len, src_len), causal_mask(src_len)[:, :, before:])
    assert torch.equal(window_mask(tgt_len, window, src_len), window_mask(src_len, window)[:, :, before:])


def test_a_single_query_after_a_cache_may_look_at_everything():
    assert causal_mask(1, 7).all()


@given(length=sizes, window=sizes)
def test_a_window_shows_the_last_few_positions(length, window):
    mask = window_mask(length, window)[0, 0]
    assert mask.sum(dim=1).tolist() == [min(window, query + 1) for query in range(length)]
    assert (mask & ~causal_mask(length)[0, 0]).sum() == 0


def test_all_see_the_prefix_and_the_rest_sees_back():
    mask = prefix_mask(torch.tensor([2, 0]), 4)
    assert mask[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert torch.equal(mask[1:], causal_mask(4))


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_masks_combine_by_and(lengths):
    """A notebook took the larger of two masks of opposite meaning and looked at everything, padding too."""
    mask = causal_mask(6) & padding_mask(torch.tensor(lengths), 6)
    assert mask.shape == (len(lengths), 1, 6, 6)
    for row, length in enumerate(lengths):
        assert not mask[row, ..., length:].any()
        assert torch.equal(mask[row, 0, :, :length], causal_mask(6)[0, 0, :, :length])


def test_documents_in_one_row_do_not_see_each_other():
    mask = document_mask(torch.tensor([[4, 4, 7, 7, 7, 9]]))[0, 0]
    assert mask.int().tolist() == [
        [1, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [0, 0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_bidirectional_window_is_as_wide_on_both_sides(window):
    mask = window_mask(6, window, bidirectional=True)[0, 0]
    for query in range(6):
        assert mask[query].tolist() == [abs(query - key) < window for key in range(6)]
    assert torch.equal(mask & causal_mask(6)[0, 0], window_mask(6, window)[0, 0])
