"""RMS norm in one pass is what PyTorch computes in several, gradients too."""

import pytest
import torch
import torch.nn.functional as F

from regard.fast.native import rms_norm_training
from regard.fast.native.rms_norm_training import TrainingRMSNorm
from tests.fast.native.test_residual import agree, tensors

pytestmark = pytest.mark.usefixtures("any_width")


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request, monkeypatch):
    monkeypatch.setattr(rms_norm_training, "threads_for", lambda multiplications: request.param)


@pytest.mark.parametrize("shape", [(1, 1), (3, 15), (2, 5, 16), (7, 33), (40, 64)])
def test_rows_are_divided_by_their_root_mean_square(shape):
    agree(
        lambda x, gain: TrainingRMSNorm.apply(x, gain, 1e-3),
        lambda x, gain: F.rms_norm(x, shape[-1:], gain, 1e-3),
        tensors(shape, shape[-1:]),
    )


def test_rows_may_stand_apart():
    agree(
        lambda x, gain: TrainingRMSNorm.apply(x.T, gain, 1e-3),
        lambda x, gain: F.rms_norm(x.T, (8,), gain, 1e-3),
        tensors((8, 6), (8,)),
    )


def test_gradients_have_the_same_bits_each_time():
    given = tensors((50, 20), (20,))
    first, again = (
        torch.autograd.grad(TrainingRMSNorm.apply(*given, 1e-5).square().sum(), given) for _ in range(2)
    )
    assert all(map(torch.equal, first, again))
