"""Activation and dropout in one pass, plain or gated, are what PyTorch computes in several, gradients too."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from regard.fast.activation_kinds import kernel_kind
from regard.fast.native import activation_training
from regard.fast.native.activation_training import ActivateDropped
from regard.fast.native.residual import DropoutBits
from regard.layers.feedforward import quick_gelu
from tests.fast.native.test_residual import agree, dropping
from tests.nightly import each_once

pytestmark = pytest.mark.usefixtures("any_width")
ACTIVATIONS = {
    "silu": F.silu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "gelu": F.gelu,
    "quick_gelu": quick_gelu,
}


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request, monkeypatch):
    monkeypatch.setattr(activation_training, "threads_for", lambda multiplications: request.param)


@pytest.mark.parametrize(
    ("name", "features", "p", "gated"),
    each_once(list(ACTIVATIONS), [1, 15, 16, 48, 77], [0.0, 0.3], [False, True]),
    ids=str,
)
def test_it_is_the_activation_with_its_derivative(name, features, p, gated):
    activation = ACTIVATIONS[name]
    chosen, mask = dropping((5, features), p)
    generator = torch.Generator().manual_seed(features)
    x = (8 * torch.randn(5, features * (1 + gated), generator=generator)).requires_grad_()

    def plain(x):
        gate, inner = x.chunk(2, dim=-1) if gated else (x, 1)
        return activation(gate) * inner * mask

    agree(lambda x: ActivateDropped.apply(x, kernel_kind(activation), gated, chosen), plain, [x])


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_large_numbers_have_finite_slopes_and_what_is_not_a_number_stays_so(name):
    x = torch.tensor([[1e30, -1e30, 100.0, -100.0, 0.0, torch.nan]], requires_grad=True)
    out = ActivateDropped.apply(x, kernel_kind(ACTIVATIONS[name]), False, DropoutBits(None))
    (slope,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(slope, torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.5, torch.nan]]), equal_nan=True)
