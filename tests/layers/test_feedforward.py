"""Feed-forward networks: golden numbers and their formulas."""

import pytest
import torch
import torch.nn.functional as F

from regard.layers.feedforward import FeedForward, GatedFeedForward, feed_forward


def test_the_output_of_a_worked_example():
    network = FeedForward(4, 2)
    inner = torch.tensor([[0.1, 0.2], [-0.1, 0.1], [0.3, -0.2], [0.2, 0.1]])
    outer = torch.tensor([[1.0, -0.5, 0.8, 0.2], [0.5, 0.3, -0.2, 0.4]])
    network.inner.weight.data, network.inner.bias.data = inner.T, torch.tensor([0.01, 0.02])
    network.outer.weight.data, network.outer.bias.data = outer.T, torch.tensor([0.03, -0.01, 0.02, 0.01])
    found = network(torch.tensor([0.5, -0.2, 0.1, 0.8]))
    torch.testing.assert_close(found, torch.tensor([0.38, -0.097, 0.204, 0.128]))


def test_swiglu_is_its_formula():
    network = feed_forward("swiglu", 4, 6)
    assert isinstance(network, GatedFeedForward)
    x = torch.randn(3, 4)
    gate, inner = network.gate_inner.weight.chunk(2)
    torch.testing.assert_close(network(x), (F.silu(x @ gate.T) * (x @ inner.T)) @ network.outer.weight.T)


def test_gelu_is_the_exact_one():
    network = feed_forward("gelu", 4, 6)
    x = torch.randn(3, 4)
    inner = network.inner(x)
    exact = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
    torch.testing.assert_close(network(x), network.outer(exact))


def test_quick_gelu_is_its_formula_and_near_gelu():
    network = feed_forward("quick_gelu", 4, 6)
    x = torch.linspace(-6, 6, 48).view(12, 4)
    inner = network.inner(x)
    torch.testing.assert_close(network(x), network.outer(inner / (1 + (-1.702 * inner).exp())))
    assert (network.activation(x) - F.gelu(x)).abs().max() < 0.021


@pytest.mark.parametrize("kind", ["relu", "gelu", "swiglu"])
def test_each_position_thinks_for_itself(kind):
    network = feed_forward(kind, 4, 6)
    x = torch.randn(2, 5, 4)
    torch.testing.assert_close(network(x)[:, 3], network(x[:, 3]))


@pytest.mark.parametrize("kind", ["relu", "gelu", "swiglu"])
def test_dropout_between_the_products_is_silent_in_evaluation(kind):
    network = feed_forward(kind, 4, 64, dropout=0.5)
    x = torch.randn(2, 5, 4)
    assert not torch.equal(network(x), network(x))
    assert torch.equal(network.eval()(x), network(x))


@pytest.mark.parametrize(("kind", "biases"), [("relu", 2), ("gelu", 2), ("swiglu", 0)])
def test_biases_can_be_left_out_and_a_gate_never_has_any(kind, biases):
    def count(bias: bool) -> int:
        names = (name for name, _ in feed_forward(kind, 4, 6, bias=bias).named_parameters())
        return sum(name.endswith("bias") for name in names)

    assert (count(True), count(False)) == (biases, 0)
