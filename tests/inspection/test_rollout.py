"""A rollout follows what is looked at through the layers."""

import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.rollout import attention_rollout

BEFORE = torch.eye(4).roll(-1, 1).tril() + torch.eye(4)[:1].T @ torch.eye(4)[:1]  # each at the one before


def random_weights(layers, heads=3, length=5):
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(heads, length, length, generator=generator).softmax(-1) for _ in range(layers)]


def test_rows_are_shares():
    found = attention_rollout(random_weights(4))
    torch.testing.assert_close(found.sum(dim=1), torch.ones(5))
    assert (found > 0).all()


def test_attention_to_itself_is_the_identity():
    torch.testing.assert_close(attention_rollout([torch.eye(5)[None]] * 3), torch.eye(5))


def test_the_residual_counts_a_half():
    weights = random_weights(1, heads=1)
    torch.testing.assert_close(attention_rollout(weights), (torch.eye(5) + weights[0][0]) / 2)
    torch.testing.assert_close(attention_rollout(weights, residual=0.0), weights[0][0])
    torch.testing.assert_close(attention_rollout(weights, residual=1.0), torch.eye(5))


def test_without_residual_layers_are_a_product_the_lowest_first():
    low, high = random_weights(2, heads=2)
    torch.testing.assert_close(attention_rollout([low, high], residual=0.0), high.mean(0) @ low.mean(0))


def test_attention_one_back_in_two_layers_reaches_two_back():
    found = attention_rollout([BEFORE[None]] * 2)
    torch.testing.assert_close(found[3], torch.tensor([0.0, 0.25, 0.5, 0.25]))


def test_nothing_comes_from_ahead_of_a_causal_stack():
    causal = [layer.tril() / layer.tril().sum(-1, keepdim=True) for layer in random_weights(3)]
    assert not attention_rollout(causal).triu(1).any()


def test_a_masked_row_keeps_its_input():
    weights = torch.eye(3)[None].clone()
    weights[0, 1] = 0
    torch.testing.assert_close(attention_rollout([weights]), torch.eye(3))


def test_no_layers_have_no_rollout():
    with pytest.raises(ConfigError, match="one layer or more"):
        attention_rollout([])
