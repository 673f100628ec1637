"""Soft-capped numbers: bounded, nearly unchanged if small; attention and linear layers that cap."""

import torch

from regard.layers.attention import SelfAttention
from regard.layers.graph import attend_along_edges
from regard.layers.masks import causal_mask
from regard.layers.scaled_dot_product import attention_scores, attention_weights, plain_attention
from regard.layers.softcapped import SoftcappedLinear, softcapped


def test_it_is_bounded_and_nearly_unchanged_if_small():
    scores = torch.tensor([-1e4, -0.01, 0.0, 0.01, 1e4])
    torch.testing.assert_close(softcapped(scores, 5.0), torch.tensor([-5.0, -0.01, 0.0, 0.01, 5.0]))


def test_scores_are_capped_before_bias_and_mask():
    query, key, bias = 9 * torch.randn(1, 2, 4, 6), torch.randn(1, 2, 4, 6), torch.randn(1, 2, 4, 4)
    capped = softcapped(attention_scores(query, key), 2.0)
    torch.testing.assert_close(attention_scores(query, key, bias, 2.0), capped + bias)
    weights = (capped + bias).where(causal_mask(4), -torch.inf).softmax(-1)
    torch.testing.assert_close(attention_weights(query, key, causal_mask(4), bias, 2.0), weights)


def test_an_attention_caps_its_scores():
    torch.manual_seed(0)
    capped, usual = (SelfAttention(8, 4, num_kv_heads=2, softcap=cap, dropout=0.5) for cap in (0.3, None))
    usual.load_state_dict(capped.state_dict())
    x, mask = 5 * torch.randn(2, 5, 8), causal_mask(5)

    def by_formula(query, key, value, mask, bias, dropout):
        weights = attention_weights(query, key, mask, bias, 0.3)
        return weights @ value.repeat_interleave(2, dim=1)

    before = usual.eval()(x, x, mask)
    usual.attend = by_formula
    torch.testing.assert_close(capped.eval()(x, x, mask), usual(x, x, mask))
    assert not torch.allclose(before, usual(x, x, mask), rtol=1e-2)
    assert not torch.equal(capped.train()(x, x, mask), capped(x, x, mask))  # dropout of weights
    capped.attend = plain_attention  # another kernel may be put in
    torch.testing.assert_close(capped.eval()(x, x, mask), before)


def test_attention_along_edges_is_capped_too():
    attention = SelfAttention(8, 2, softcap=0.3).eval()
    x = 5 * torch.randn(1, 4, 8)
    edges = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T
    torch.testing.assert_close(attend_along_edges(attention, x, edges), attention(x, x))


def test_a_linear_layer_caps_its_outputs():
    layer = SoftcappedLinear(4, 3, cap=0.5)
    x = 3 * torch.randn(2, 4)
    plain = torch.nn.functional.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), 0.5 * torch.tanh(plain / 0.5))
