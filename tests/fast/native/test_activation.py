"""Activations are those of PyTorch, and an element has the same bits wherever it stands."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from regard.fast.native import kernels
from regard.fast.native.activation import QUICK_GELU, activate, kind_of
from regard.layers.feedforward import quick_gelu

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")
KNOWN = [
    *(
        (activation, kind_of(activation))
        for activation in (F.silu, partial(F.gelu, approximate="tanh"), F.gelu)
    ),
    (quick_gelu, QUICK_GELU),
]
NAMES = ["silu", "gelu_tanh", "gelu", "quick_gelu"]


@pytest.mark.parametrize(("activation", "kind"), KNOWN, ids=NAMES)
@pytest.mark.parametrize("features", [1, 15, 16, 48, 1100])
@pytest.mark.parametrize("gated", [True, False])
def test_they_are_those_of_pytorch(activation, kind, features, gated):
    both = 30 * torch.randn(9, 2 * features, generator=torch.Generator().manual_seed(features))
    x, times = both.chunk(2, dim=1)
    found = activate(x, kind, times if gated else None)
    expected = activation(x.double()) * (times.double() if gated else 1)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    for row in range(9):
        alone = activate(x[row : row + 1].contiguous(), kind, times[row : row + 1] if gated else None)
        assert torch.equal(alone[0], found[row])
    shifted = activate(x[:, -1:], kind, times[:, -1:] if gated else None)
    assert torch.equal(shifted, found[:, -1:])


@pytest.mark.parametrize(("activation", "kind"), KNOWN, ids=NAMES)
def test_what_is_not_a_number_stays_so(activation, kind):
    x = torch.tensor([[1.0, torch.nan, 2.0, 0.0, -0.0, 1e30]])
    found = activate(x, kind)
    assert found.isnan().tolist() == [[False, True, False, False, False, False]]


def test_others_are_not_known():
    assert kind_of(F.relu) is None
    assert kind_of(partial(F.gelu, approximate="none")) is None
