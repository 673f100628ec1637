"""The loss in pieces is the loss of all logits, and so are its gradients."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.fast.linear_cross_entropy import (
    ROWS_AT_A_TIME,
    can_be_linear_cross_entropy,
    linear_cross_entropy,
    output_layer,
)
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig

needs_pytorch = pytest.mark.skipif(
    not hasattr(F, "linear_cross_entropy"), reason="this PyTorch has no linear_cross_entropy"
)


def case(rows, *, bias, seed=1):
    generator = torch.Generator().manual_seed(seed)
    output = nn.Linear(8, 50, bias=bias)
    with torch.no_grad():
        for parameter in output.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    states = torch.randn(rows, 8, generator=generator, requires_grad=True)
    return states, output, torch.randint(50, (rows,), generator=generator)


@pytest.fixture(params=["kernels", "PyTorch"], autouse=True)
def form(request, monkeypatch):
    """With the kernels of `native`, where there are any, and without."""
    if request.param == "PyTorch":
        monkeypatch.setattr("regard.fast.linear_cross_entropy.can_be_fused", lambda *given: False)


@needs_pytorch
@pytest.mark.parametrize("rows", [1, 7, ROWS_AT_A_TIME, ROWS_AT_A_TIME + 1, 3 * ROWS_AT_A_TIME - 5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_pytorchs_cross_entropy_of_all_logits(rows, smoothing, bias):
    states, output, labels = case(rows, bias=bias)
    trained = [states, *output.parameters()]
    total, nll = linear_cross_entropy(states, output, labels, smoothing)
    logits = output(states)
    plain = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(total, plain)
    torch.testing.assert_close(nll, F.cross_entropy(logits, labels, reduction="sum").detach())
    for fast, slow in zip(
        torch.autograd.grad(3 * total, trained), torch.autograd.grad(3 * plain, trained), strict=True
    ):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)


@needs_pytorch
def test_no_piece_is_too_far_off_for_float32():
    states, output, labels = case(5, bias=True)
    with torch.no_grad():
        output.weight *= 1000
    total, _ = linear_cross_entropy(states, output, labels, 0.1)
    torch.testing.assert_close(
        total, F.cross_entropy(output(states), labels, label_smoothing=0.1, reduction="sum")
    )


@needs_pytorch
def test_a_weight_that_is_also_an_embedding_gets_both_gradients():
    embedding = nn.Parameter(torch.randn(50, 8, generator=torch.Generator().manual_seed(1)))
    output = nn.Linear(8, 50, bias=False)
    output.weight = embedding
    labels = torch.arange(10)

    def gradient(loss):
        return torch.autograd.grad(loss(F.embedding(labels + 10, embedding)), embedding)[0]

    fast = gradient(lambda states: linear_cross_entropy(states, output, labels, 0.1)[0])
    slow = gradient(
        lambda states: F.cross_entropy(output(states), labels, label_smoothing=0.1, reduction="sum")
    )
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


def test_what_is_no_plain_linear_in_float32_on_a_cpu_keeps_its_logits():
    states, output, _ = case(3, bias=True)
    assert can_be_linear_cross_entropy(states, output) == hasattr(F, "linear_cross_entropy")
    assert not can_be_linear_cross_entropy(states.to("meta"), output)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not can_be_linear_cross_entropy(states, output)


def test_only_the_known_projection_by_one_plain_linear_layer_is_left_out():
    model = build_model(DecoderOnlyConfig(vocab_size=50, d_model=16, num_layers=1, num_heads=2, d_ff=32))
    linear = model.output
    assert output_layer(model) is linear
    model.output = nn.Sequential(linear)
    assert output_layer(model) is None
    model.output = linear
    hook = linear.register_forward_hook(lambda *_: None)
    assert output_layer(model) is None
    hook.remove()
    model.project = lambda hidden: 2 * linear(hidden)
    assert output_layer(model) is None
    del model.project
    assert output_layer(model) is linear

    class Doubled(DecoderOnly):
        def project(self, hidden):
            return 2 * self.output(hidden)

    assert output_layer(Doubled(model.config)) is None


def test_a_soft_capped_output_is_called():
    config = DecoderOnlyConfig(vocab_size=50, d_model=8, num_heads=2, d_ff=8, num_layers=1, logit_softcap=3.0)
    assert output_layer(build_model(config, seed=0)) is None
    assert output_layer(build_model(dataclasses.replace(config, logit_softcap=None), seed=0)) is not None
