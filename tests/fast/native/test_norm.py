"""Norms in C are PyTorch's."""

import pytest
import torch

from regard.fast.native import kernels
from regard.fast.native.norm import PackedNorm

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")


def case(features, rows=7):
    generator = torch.Generator().manual_seed(features)
    x, gain, bias = (
        torch.randn(*shape, generator=generator) for shape in ((rows, features), (features,), (features,))
    )
    return 3 * x + 1, gain, bias


def close(found, expected):
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("features", [1, 3, 8, 15, 16, 17, 50, 256, 1001])
@pytest.mark.parametrize("eps", [1e-6, 1e-2])
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_layer_norm_is_that_of_pytorch(features, eps, with_bias):
    x, gain, bias = case(features)
    found = PackedNorm(gain, bias if with_bias else None, eps, center=True)(x)
    shift = bias.double() if with_bias else None
    close(found, torch.layer_norm(x.double(), (features,), gain.double(), shift, eps))


@pytest.mark.parametrize("features", [1, 3, 8, 15, 16, 17, 50, 256, 1001])
@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_an_rms_norm_is_that_of_pytorch(features, eps):
    x, gain, _bias = case(features)
    found = PackedNorm(gain, None, eps, center=False)(x)
    close(found, torch.rms_norm(x.double(), (features,), gain.double(), eps))


def test_a_mean_far_from_0_takes_no_digits_away():
    """The variance is that of differences."""
    x, gain, bias = case(50)
    x = (x + 4096).round(decimals=2)
    found = PackedNorm(gain, bias, 1e-5, center=True)(x)
    expected = torch.layer_norm(x.double(), (50,), gain.double(), bias.double(), 1e-5)
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("center", [True, False])
def test_rows_are_apart(center):
    x, gain, bias = case(50)
    norm = PackedNorm(gain, bias, 1e-5, center=center)
    whole = norm(x)
    assert all(torch.equal(norm(x[[row]])[0], whole[row]) for row in range(7))
    wide = torch.randn(7, 90)
    wide[:, 20:70] = x
    assert torch.equal(norm(wide[:, 20:70]), whole)
    x[2, 49] = torch.nan
    x[3] = 0
    found = norm(x)
    assert found[2].isnan().all()
    assert torch.equal(found[3], bias)
    assert torch.equal(found[[0, 1, 4, 5, 6]], whole[[0, 1, 4, 5, 6]])
    assert norm(x[:0]).shape == (0, 50)
