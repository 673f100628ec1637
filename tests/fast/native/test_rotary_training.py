"""Rotary positions in one pass are what PyTorch computes in several, gradients too."""

import pytest
import torch

from regard.fast.native import rotary_training
from regard.fast.native.rotary_training import TrainingRotation
from regard.layers.positions import RotaryPositions

pytestmark = pytest.mark.usefixtures("any_width")


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request, monkeypatch):
    monkeypatch.setattr(rotary_training, "threads_for", lambda multiplications: request.param)


@pytest.mark.parametrize("before_heads", [True, False])
@pytest.mark.parametrize(("d_head", "rotary_dim"), [(2, None), (16, None), (20, 6), (64, None)])
def test_queries_and_keys_are_rotated_by_their_positions(d_head, rotary_dim, before_heads):
    positions = RotaryPositions(d_head, rotary_dim=rotary_dim)
    shape = (2, 7, 3, d_head) if before_heads else (2, 3, 7, d_head)
    whole = torch.randn(shape, generator=torch.Generator().manual_seed(d_head), requires_grad=True)
    x = whole.transpose(1, 2) if before_heads else whole
    found = TrainingRotation.apply(x, *positions.sines_and_cosines(5, 7))
    expected = positions(x, 5)
    torch.testing.assert_close(found, expected)
    towards = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad(found, whole, towards)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, whole, towards)[0])


def test_gradients_that_are_expanded_are_read():
    x = torch.randn(2, 3, 4, 8, requires_grad=True)
    positions = RotaryPositions(8)
    tables = positions.sines_and_cosines(0, 4)
    (gradient,) = torch.autograd.grad(TrainingRotation.apply(x, *tables).sum(), x)
    torch.testing.assert_close(gradient, torch.autograd.grad(positions(x).sum(), x)[0])
