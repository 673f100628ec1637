"""Weights cast by one operation: as autocast's own casts, and left out where that would change something."""

import copy
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.func import functional_call

from regard.fast import half_weights as form
from regard.fast.half_copies import copies, half_of, normed_of, with_half, with_normed
from regard.fast.half_weights import HALF_FORMS, half_weights
from regard.layers.stacked import StackedLinear


class Model(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8, bias), StackedLinear(8, (3, 4), bias)

    def forward(self, x):
        return self.second(self.first(x).relu())


def converted(model):
    for module in model.modules():
        if type(module) in HALF_FORMS:
            module.__class__ = HALF_FORMS[type(module)]
    return model


def gradients(model, x, context):
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16), context:
        out = model(x)
    out.float().square().sum().backward()
    return [out.detach(), *(weight.grad for weight in model.parameters())]


def casts(model):
    """How many layers have copies within the context."""
    with torch.autocast("cpu", torch.bfloat16), half_weights(model):
        return len(form._copies.get() or ())


@pytest.fixture
def model():
    torch.manual_seed(0)
    return converted(Model())


@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_those_of_autocast(bias):
    torch.manual_seed(0)
    model, x = converted(Model(bias)), torch.randn(5, 6)
    expected = gradients(model, x, nullcontext())
    found = gradients(model, x, half_weights(model))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)
    assert casts(model) == 2


def test_gradients_of_several_batches_add_up(model):
    x = torch.randn(5, 6)
    gradients(model, x, half_weights(model))
    once = [weight.grad.clone() for weight in model.parameters()]
    with torch.autocast("cpu", torch.bfloat16), half_weights(model):
        out = model(x)
    out.float().square().sum().backward()
    for weight, before in zip(model.parameters(), once, strict=True):
        torch.testing.assert_close(weight.grad, 2 * before)


def test_a_change_of_a_weight_is_seen_at_once(model):
    x = torch.randn(5, 6)
    gradients(model, x, half_weights(model))
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert not gradients(model, x, half_weights(model))[0].any()


def test_after_the_context_the_weights_themselves_are_used(model):
    gradients(model, torch.randn(5, 6), half_weights(model))
    assert model(torch.randn(2, 6)).dtype == torch.float32
    assert form._copies.get() is None


def test_after_an_error_too(model):
    with pytest.raises(RuntimeError), torch.autocast("cpu", torch.bfloat16), half_weights(model):
        model(torch.randn(5, 7))
    assert form._copies.get() is None


def test_without_autocast_or_gradients_it_does_nothing(model):
    with half_weights(model):
        assert model(torch.randn(2, 6)).dtype == torch.float32
    with torch.no_grad():
        assert casts(model) == 0
    assert casts(model.eval()) == 0


def test_layers_without_gradient_or_with_hooks_are_left_to_autocast(model):
    model.first.bias.requires_grad_(False)
    assert casts(model) == 1
    hook = model.second.weight.register_hook(lambda gradient: gradient)
    assert casts(model) == 0
    hook.remove()
    hook = model.second.register_forward_pre_hook(lambda *_: None)
    assert casts(model) == 0
    hook.remove()
    assert casts(model) == 1


def test_a_shared_weight_gets_the_gradients_of_all_its_layers(model):
    model.third = nn.Linear(8, 7)
    model.third.weight = model.second.weight
    x, forward = torch.randn(5, 6), model.forward
    model.forward = lambda x: forward(x) + model.third(model.first(x))
    expected = gradients(model, x, nullcontext())
    found = gradients(converted(model), x, half_weights(model))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
    assert casts(model) == 3


def same(model, run):
    """What `run` returns by autocast alone, and within the context."""
    with torch.autocast("cpu", torch.bfloat16):
        expected = run()
        with half_weights(model):
            found = run()
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    assert found.dtype == expected.dtype


def test_other_weights_than_those_that_were_cast_are_used_themselves(model):
    x = torch.randn(5, 6)
    zeros = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
    same(model, lambda: functional_call(model, zeros, (x,)))

    def halved():
        with torch.no_grad():
            model.first.weight.mul_(0.5)
        out = model(x).detach()
        with torch.no_grad():
            model.first.weight.mul_(2)
        return out

    same(model, halved)


def test_a_pass_without_autocast_within_it_computes_in_float32(model):
    def run():
        with torch.autocast("cpu", enabled=False):
            return model(torch.ones(5, 6))

    same(model, run)


def test_another_thread_uses_the_weights_themselves(model):
    with torch.autocast("cpu", torch.bfloat16), half_weights(model), ThreadPoolExecutor(1) as pool:
        assert pool.submit(model, torch.randn(5, 6)).result().dtype == torch.float32


def test_second_derivatives_are_those_of_autocast(model):
    def penalty(context):
        x = torch.ones(5, 6, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16), context:
            out = model(x)
        model.zero_grad()
        slopes = torch.autograd.grad(out.float().square().sum(), list(model.parameters()), create_graph=True)
        sum(slope.square().sum() for slope in slopes).backward()
        return [weight.grad for weight in model.parameters()]

    for one, other in zip(penalty(half_weights(model)), penalty(nullcontext()), strict=True):
        torch.testing.assert_close(one, other, rtol=5e-2, atol=5e-2)


def test_a_model_can_be_copied_within_the_context(model):
    with torch.autocast("cpu", torch.bfloat16), half_weights(model):
        model(torch.ones(2, 6))
        other = copy.deepcopy(model)
        other(torch.ones(2, 6)).float().sum().backward()
    assert other.first.weight.grad is not None
    assert model.first.weight.grad is None


def test_a_layer_that_was_not_used_has_no_gradient(model):
    with torch.autocast("cpu", torch.bfloat16), half_weights(model):
        model.first(torch.randn(2, 6)).float().sum().backward()
    assert model.first.weight.grad is not None
    assert model.second.weight.grad is None


def test_a_copy_is_used_until_its_tensor_changes():
    x, half, norm = torch.ones(3), torch.zeros(3, dtype=torch.bfloat16), nn.LayerNorm(3)
    with torch.autocast("cpu", torch.bfloat16), copies(True):
        assert half_of(with_half(x, half)) is half
        assert normed_of(with_normed(x, norm, half), norm, half.dtype) is half
        assert normed_of(x, norm, torch.float32) is None
        assert normed_of(x, nn.LayerNorm(3), half.dtype) is None
        with copies(False):
            assert half_of(x) is x
            assert normed_of(x, norm, half.dtype) is None
        x.add_(1)
        assert half_of(x) is x
        assert normed_of(x, norm, half.dtype) is None
        assert half_of(with_half(x, half)) is half
    with torch.autocast("cpu", torch.float16), copies(True):
        assert half_of(x) is x
        assert half_of(with_half(x, None)) is x


def test_without_copies_a_tensor_of_inference_is_only_read():
    with torch.inference_mode(), copies(True):
        x = torch.ones(3)
        assert half_of(x) is x
        assert normed_of(x, nn.LayerNorm(3), x.dtype) is None


def test_a_layer_reads_the_copy_of_its_input(model):
    x = torch.zeros(5, 6)
    with torch.autocast("cpu", torch.bfloat16), half_weights(model), copies(True):
        found = form.product(model.first, with_half(x, torch.ones(5, 6, dtype=torch.bfloat16)), bias=False)
    torch.testing.assert_close(found[0].float(), model.first.weight.sum(1), rtol=1e-2, atol=1e-2)
