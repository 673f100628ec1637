"""Dropout, residual, norm and ReLU in one pass are what PyTorch computes in several, gradients too."""

import pytest
import torch
import torch.nn.functional as F

from regard.fast.dropout import dropout_bits
from regard.fast.native import residual
from regard.fast.native.residual import AddDropped, AddNorm, DropoutBits, FeedForwardReLU

pytestmark = pytest.mark.usefixtures("any_width")
SHAPES = [(1, 1), (3, 15), (2, 5, 16), (7, 33), (40, 64)]


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request, monkeypatch):
    monkeypatch.setattr(residual, "threads_for", lambda multiplications: request.param)


def tensors(*shapes):
    generator = torch.Generator().manual_seed(len(shapes))
    return [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]


def dropping(shape, p):
    """What is dropped, and the same as a mask in float64."""
    torch.manual_seed(5)
    chosen = dropout_bits(shape, p) if p else DropoutBits(None)
    mask = torch.ones(shape) if chosen.bits is None else (chosen.bits >= chosen.dropped) * chosen.kept
    return chosen, mask.double()


def agree(fast, plain, given):
    """Outputs and gradients, the plain ones in float64."""
    exact = [each.detach().double().requires_grad_() for each in given]
    found, expected = fast(*given), plain(*exact)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    towards = torch.randn(found.shape, generator=torch.Generator().manual_seed(9))
    gradients = torch.autograd.grad(found, given, towards)
    for each, its in zip(gradients, torch.autograd.grad(expected, exact, towards.double()), strict=True):
        torch.testing.assert_close(each.double(), its, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_a_residual_and_what_dropout_leaves_are_added(shape, p):
    chosen, mask = dropping(shape, p)
    residual, x = tensors(shape, shape)
    agree(lambda a, b: AddDropped.apply(a, b, chosen), lambda a, b: a + b * mask, [residual, x])
    agree(lambda a: AddDropped.apply(None, a, chosen), lambda a: a * mask, [x])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_the_sum_is_normed(shape, p):
    chosen, mask = dropping(shape, p)
    features = shape[-1:]
    agree(
        lambda a, b, gain, bias: AddNorm.apply(a, b, gain, bias, 1e-3, chosen),
        lambda a, b, gain, bias: F.layer_norm(a + b * mask, features, gain, bias, 1e-3),
        tensors(shape, shape, features, features),
    )


@pytest.mark.parametrize(("rows", "d_model", "d_ff"), [(1, 1, 1), (5, 3, 17), (33, 16, 32)])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_a_feed_forward_network_is_two_maps_with_relu_between(rows, d_model, d_ff, p):
    chosen, mask = dropping((rows, d_ff), p)
    agree(
        lambda *given: FeedForwardReLU.apply(*given, chosen),
        lambda x, inner, bias, outer, last: F.linear(F.relu(F.linear(x, inner, bias)) * mask, outer, last),
        tensors((rows, d_model), (d_ff, d_model), (d_ff,), (d_model, d_ff), (d_model,)),
    )


def test_rows_may_stand_apart():
    x, residual = tensors((8, 6), (8, 6))
    agree(lambda a, b: AddDropped.apply(a.T, b.T, DropoutBits(None)), lambda a, b: a.T + b.T, [x, residual])


def test_gradients_have_the_same_bits_each_time():
    given = tensors((50, 20), (50, 20), (20,), (20,))
    chosen, _ = dropping((50, 20), 0.3)
    first, again = (
        torch.autograd.grad(AddNorm.apply(*given, 1e-5, chosen).square().sum(), given) for _ in range(2)
    )
    assert all(map(torch.equal, first, again))


def test_what_is_not_a_number_stays_so():
    x = torch.tensor([[1.0, torch.nan, -2.0]], requires_grad=True)
    one = torch.eye(3)
    hidden = FeedForwardReLU.apply(x, one, torch.zeros(3), one, torch.zeros(3), DropoutBits(None))
    assert hidden.isnan().any()
    assert AddNorm.apply(x, x, torch.ones(3), torch.zeros(3), 1e-5, DropoutBits(None)).isnan().all()
