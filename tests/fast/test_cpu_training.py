"""Norms and rotations with kernels differ from those without by rounding alone; changed ones are called."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.fast.cpu_training import CPU_FORMS
from regard.fast.native.kernels import available
from regard.fast.training import FUSED_FORMS, fuse, fused
from regard.layers.feedforward import FeedForward, GatedFeedForward
from regard.layers.norm import RMSNorm
from regard.layers.positions import RotaryPositions
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from tests.fast.test_training import ACTIVATED, FUSED, kernels_behind

pytestmark = pytest.mark.skipif(not available(), reason="no C compiler")
KERNELS = {"TrainingRMSNormBackward", "TrainingRotationBackward"}


def results(model, ids):
    model.zero_grad()
    logits = model(ids)
    logits.square().sum().backward()
    return kernels_behind(logits) & KERNELS, logits.detach(), [each.grad for each in model.parameters()]


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("qk_norm", [True, False])
def test_a_model_with_kernels_differs_by_rounding_alone(rotary_dim, qk_norm):
    config = DecoderOnlyConfig(
        vocab_size=30, d_model=32, num_heads=2, num_kv_heads=1, d_ff=48, num_layers=2, norm="rms",
        positions="rotary", rotary_dim=rotary_dim, qk_norm=qk_norm, dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    model, ids = build_model(config, seed=0).train(), torch.randint(30, (3, 7))
    without, *plain = results(model, ids)
    with fused(model):
        kernels, *fast = results(model, ids)
    assert (without, kernels) == (set(), KERNELS)
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "made", [RMSNorm(8, eps=None), RMSNorm((3, 8), eps=1e-5), RMSNorm(8, eps=1e-5).double()],
    ids=["no eps", "two axes", "float64"],
)  # fmt: skip
def test_other_norms_are_those_of_pytorch(made):
    x = torch.randn(2, 3, 8, requires_grad=True, dtype=made.weight.dtype)
    expected = made(x)
    fuse(made)
    out = made(x)
    assert not kernels_behind(out) & KERNELS
    assert torch.equal(out, expected)


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (RMSNorm(8, eps=1e-5), (2, 3, 8)),
        (RotaryPositions(8), (2, 1, 3, 8)),
        (FeedForward(8, 8), (2, 8)),
        (FeedForward(8, 8, F.gelu), (2, 8)),
        (GatedFeedForward(8, 8), (2, 8)),
    ],
    ids=["norm", "rotation", "relu", "gelu", "gate"],
)
def test_a_changed_class_is_called(made, shape, monkeypatch):
    x = torch.randn(shape, requires_grad=True)
    with fused(made):
        assert kernels_behind(made(x)) & (KERNELS | FUSED | {ACTIVATED})
        monkeypatch.setattr(type(made).__mro__[1], "forward", lambda module, given, *others: given * 2)
        torch.testing.assert_close(made(x), x * 2)
    assert type(made) in {**CPU_FORMS, **FUSED_FORMS}


def test_the_tables_of_forms_stay_as_they_are(monkeypatch):
    before = dict(FUSED_FORMS), dict(CPU_FORMS)
    monkeypatch.setattr("regard.fast.training.is_on_gpu", lambda x: True)
    fuse(nn.Sequential(nn.Linear(2, 2)))
    assert before == (FUSED_FORMS, CPU_FORMS)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_sines_of_another_type_are_those_of_pytorch(dtype):
    made, x = RotaryPositions(8).to(dtype), torch.randn(2, 1, 3, 8, requires_grad=True)
    expected = made(x)
    with fused(made):
        assert torch.equal(made(x), expected)


@pytest.mark.parametrize(
    "spread",
    [lambda weight: weight.repeat_interleave(2)[::2], lambda weight: weight[:1].expand(8)],
    ids=["apart", "expanded"],
)
def test_a_gain_that_is_not_contiguous_is_read_in_its_order(spread):
    made, x = RMSNorm(8, eps=1e-5), torch.randn(2, 8, requires_grad=True)
    made.weight = nn.Parameter(spread(torch.randn(8)))
    expected = made(x)
    with fused(made):
        torch.testing.assert_close(made(x), expected)


def test_what_needs_no_gradient_has_none():
    made = RMSNorm(8, eps=1e-5)
    made.requires_grad_(False)
    x = torch.randn(2, 8, requires_grad=True)
    with fused(made):
        made(x).sum().backward()
    assert made.weight.grad is None
