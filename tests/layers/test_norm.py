"""Norms: golden numbers and their own formulas."""

import pytest
import torch

from regard.layers.norm import norm


def test_the_layer_norm_of_a_worked_example():
    """A notebook divided by the unbiased deviation and printed .5477 for the first number."""
    normed = norm("layer", 4)(torch.tensor([2.0, -1, 3, 0]))
    torch.testing.assert_close(normed, torch.tensor([0.6325, -1.2649, 1.2649, -0.6325]), atol=5e-5, rtol=0)


def test_layer_norm_is_its_formula_token_by_token():
    """The variance is biased, its guard stands inside the root, and other tokens have no say."""
    layer = norm("layer", 8)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    x = torch.randn(3, 5, 8) * 1e-2  # small, so that the guard matters
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    expected = (x - mean) / (variance + 1e-5).sqrt() * layer.weight + layer.bias
    torch.testing.assert_close(layer(x), expected)


def test_rms_norm_is_its_formula():
    layer = norm("rms", 8)
    torch.nn.init.normal_(layer.weight)
    x = torch.randn(3, 5, 8) * 1e-3
    torch.testing.assert_close(layer(x), x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * layer.weight)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_without_bias_has_a_gain_alone(kind):
    assert [name for name, _ in norm(kind, 8, bias=False).named_parameters()] == ["weight"]


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_does_not_care_for_scale(kind):
    x = torch.randn(3, 8)
    torch.testing.assert_close(norm(kind, 8)(1000 * x), norm(kind, 8)(x), atol=1e-3, rtol=1e-3)
