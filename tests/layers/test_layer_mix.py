"""The mix of layers: the mean that its definition says, and sparsemax as the nearest probabilities."""

import pytest
import torch

from regard.layers.layer_mix import LayerMix, sparsemax


def nearest_probabilities(weights: torch.Tensor) -> torch.Tensor:
    """Weights less a threshold, at least 0, that sum to 1; bisection finds the threshold."""
    low, high = weights.min() - 1, weights.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if (weights - middle).clamp(min=0).sum() > 1 else (low, middle)
    return (weights - high).clamp(min=0)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_sparsemax_is_the_nearest_point_of_the_simplex(scale):
    generator = torch.Generator().manual_seed(0)
    for size in (1, 2, 5, 25):
        weights = scale * torch.randn(size, generator=generator, dtype=torch.float64)
        torch.testing.assert_close(sparsemax(weights), nearest_probabilities(weights))


def test_sparsemax_of_equal_weights_is_uniform_and_of_a_large_one_picks_it():
    torch.testing.assert_close(sparsemax(torch.zeros(4)), torch.full((4,), 0.25))
    assert sparsemax(torch.tensor([0.0, 3.0, 1.0])).tolist() == [0.0, 1.0, 0.0]


def test_its_gradient_is_that_of_its_definition():
    weights = torch.tensor([0.3, -0.9, 0.9, 0.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(sparsemax, weights)


def by_definition(mix: LayerMix, states: list[torch.Tensor], lengths: list[int]) -> torch.Tensor:
    """Text by text, over its real positions alone."""
    shares = mix.weights.softmax(0) if mix.weighting == "softmax" else nearest_probabilities(mix.weights)
    rows = []
    for row, length in enumerate(lengths):
        mixed = torch.zeros(length, states[0].size(-1))
        for share, state in zip(shares, states, strict=True):
            x = state[row, :length]
            if mix.normalised:
                x = (x - x.mean()) / (x.var(correction=0) + mix.EPS).sqrt()
            mixed = mixed + share * x
        rows.append(mix.scale * mixed)
    return torch.cat(rows)


@pytest.mark.parametrize("weighting", ["softmax", "sparsemax"])
@pytest.mark.parametrize("normalised", [False, True])
@torch.no_grad()
def test_a_mix_is_what_its_definition_says_whatever_the_padding_holds(weighting, normalised):
    generator = torch.Generator().manual_seed(1)
    mix = LayerMix(4, weighting, normalised=normalised)
    mix.weights.copy_(torch.randn(4, generator=generator))
    mix.scale.fill_(1.7)
    lengths = [5, 3, 1]
    states = [3 + 2 * torch.randn(3, 5, 6, generator=generator) for _ in range(4)]
    is_real = torch.arange(5) < torch.tensor(lengths)[:, None]
    found = mix(iter(states), is_real)
    torch.testing.assert_close(found[is_real], by_definition(mix, states, lengths), rtol=1e-5, atol=1e-5)
    for state in states:
        state[~is_real] = 1e4
    torch.testing.assert_close(mix(iter(states), is_real)[is_real], found[is_real])


def test_every_layer_must_be_there():
    mix = LayerMix(3, "softmax", normalised=False)
    with pytest.raises(ValueError, match="shorter"):
        mix([torch.zeros(1, 2, 4)] * 2, torch.ones(1, 2, dtype=torch.bool))
