"""Attention with its own gradients is the plain kernel, wherever queries, keys and values lie."""

import pytest
import torch

from regard.fast.dropout import dropout_bits, fast_dropout
from regard.fast.native import attention_training, kernels
from regard.fast.native.attention_training import TrainingAttention
from regard.fast.native.residual import DropoutBits
from regard.layers.masks import causal_mask, padding_mask
from regard.layers.scaled_dot_product import (
    attention_weights,
    for_each_query_head,
    plain_attention,
)
from tests.nightly import each_once

pytestmark = pytest.mark.usefixtures("any_width")


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request, monkeypatch):
    monkeypatch.setattr(attention_training, "threads_for", lambda multiplications: request.param)


def parts(batch, heads, groups, tgt_len, src_len, d=None):
    """As projections have them: positions outside of heads."""
    generator, d = torch.Generator().manual_seed(tgt_len), d or kernels.constant("lanes")
    sizes = [(heads, tgt_len), (groups, src_len), (groups, src_len)]
    return [
        torch.randn(batch, length, some, d, generator=generator).transpose(1, 2).requires_grad_()
        for some, length in sizes
    ]


def agree(given, mask=None, p=0.0):
    """Outputs and gradients with those of the plain kernel in float64, by the same bits."""
    query, key = given[:2]
    exact = [each.detach().double().requires_grad_() for each in given]
    torch.manual_seed(7)
    chosen = dropout_bits((*query.shape[:3], key.size(2)), p) if p else DropoutBits(None)
    found = TrainingAttention.apply(*given, mask, *chosen)
    torch.manual_seed(7)
    weights = attention_weights(*exact[:2], mask)
    dropped = fast_dropout(weights, p) if p else weights
    expected = dropped @ for_each_query_head(exact[2], query)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    towards = torch.randn(found.shape, generator=torch.Generator().manual_seed(9))
    gradients = torch.autograd.grad(found, given, towards)
    for each, its in zip(gradients, torch.autograd.grad(expected, exact, towards.double()), strict=True):
        torch.testing.assert_close(each.double(), its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("heads", "lengths", "p"),
    each_once([(1, 1), (4, 4), (4, 2), (6, 1)], [(1, 1), (3, 17), (8, 16), (25, 9), (40, 33)], [0.0, 0.3]),
    ids=str,
)
def test_it_is_the_plain_kernel(heads, lengths, p):
    """Of so many heads and groups, lengths of target and source."""
    agree(parts(3, *heads, *lengths), p=p)


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_masks_of_any_breadth_forbid_to_look(p):
    given = parts(3, 4, 2, 11, 11, d=4 * kernels.constant("lanes"))
    padding = padding_mask(torch.tensor([11, 4, 0]), 11)  # the last may look nowhere
    drawn_mask = torch.rand(3, 4, 11, 11, generator=torch.Generator().manual_seed(1)) < 0.5
    for mask in (padding, causal_mask(11), padding & causal_mask(11), drawn_mask, drawn_mask.mT):
        agree(given, mask, p)


@pytest.mark.parametrize("length", [40, 130])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_keys_that_a_mask_forbids_to_all_tiles_so_far_are_left_out(length, p, monkeypatch):
    """Their weights in memory are not read: here they are not numbers."""
    empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda x, *shape: empty(x, *shape).fill_(torch.nan))
    given = parts(2, 2, 1, length, length)
    lengths = padding_mask(torch.tensor([length, length - 33]), length)
    step = causal_mask(length) & (torch.arange(length) != 3)  # within reach, and forbidden
    for mask in (causal_mask(length), lengths, lengths & causal_mask(length), step):
        agree(given, mask, p)


def test_parts_of_a_projection_may_be_given_and_gradients_too():
    whole = torch.randn(2, 7, 3 * 4 * 16, requires_grad=True)
    query, key, value = (part.unflatten(2, (4, 16)).transpose(1, 2) for part in whole.chunk(3, dim=2))
    found = TrainingAttention.apply(query, key, value, None, *DropoutBits(None))
    expected = plain_attention(query, key, value)
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found.sum(), whole)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), whole)[0])


def test_what_is_not_a_number_stays_so():
    query, key, value = parts(1, 1, 1, 2, 3)
    with torch.no_grad():
        query[0, 0, 0] = torch.nan
    found = TrainingAttention.apply(query, key, value, None, *DropoutBits(None))
    assert found[0, 0].isnan().any(1).tolist() == [True, False]
