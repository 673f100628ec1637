"""Weights cast by one operation: as autocast's own casts, and left out where that would change something."""

import pytest
import torch
from torch import nn

from regard.fast import half_weights as form
from regard.fast.half_copies import half_of, normed_of, with_half, with_normed
from regard.fast.half_weights import HALF_FORMS, find_layers, half_weights
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
    find_layers(model)
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
        return sum("half_weights" in vars(layer) for layer in model.modules())


@pytest.fixture
def model():
    torch.manual_seed(0)
    return converted(Model())


@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_those_of_autocast(bias):
    torch.manual_seed(0)
    model, x = converted(Model(bias)), torch.randn(5, 6)
    from contextlib import nullcontext

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
    assert not any("half_weights" in vars(layer) for layer in model.modules())


def test_after_an_error_too(model):
    with pytest.raises(RuntimeError), torch.autocast("cpu", torch.bfloat16), half_weights(model):
        model(torch.randn(5, 7))
    assert not any("half_weights" in vars(layer) for layer in model.modules())


def test_without_autocast_or_gradients_it_does_nothing(model):
    with half_weights(model):
        assert model(torch.randn(2, 6)).dtype == torch.float32
    with torch.no_grad():
        assert casts(model) == 0
    assert casts(model.eval()) == 0


def test_layers_without_gradient_with_hooks_or_shared_weights_are_left_to_autocast(model):
    model.first.bias.requires_grad_(False)
    assert casts(model) == 1
    hook = model.second.weight.register_hook(lambda gradient: gradient)
    assert casts(model) == 0
    hook.remove()
    assert casts(model) == 1
    model.third = nn.Linear(8, 7)
    model.third.weight = model.second.weight
    assert casts(converted(model)) == 0


def test_a_layer_that_was_not_used_has_no_gradient(model):
    with torch.autocast("cpu", torch.bfloat16), half_weights(model):
        model.first(torch.randn(2, 6)).float().sum().backward()
    assert model.first.weight.grad is not None
    assert model.second.weight.grad is None


def test_a_copy_is_used_until_its_tensor_changes():
    x, half, norm = torch.ones(3), torch.zeros(3, dtype=torch.bfloat16), nn.LayerNorm(3)
    with torch.autocast("cpu", torch.bfloat16):
        assert half_of(with_half(x, half)) is half
        assert normed_of(with_normed(x, norm, half), norm) is half
        assert normed_of(x, nn.LayerNorm(3)) is None
        x.add_(1)
        assert half_of(x) is x
        assert normed_of(x, norm) is None
        assert half_of(with_half(x, half)) is half
    with torch.autocast("cpu", torch.float16):
        assert half_of(x) is x
    assert half_of(with_half(x, None)) is x


def test_a_layer_reads_the_copy_of_its_input(model):
    x = torch.zeros(5, 6)
    with torch.autocast("cpu", torch.bfloat16), half_weights(model):
        found = form.product(model.first, with_half(x, torch.ones(5, 6, dtype=torch.bfloat16)), bias=False)
    torch.testing.assert_close(found[0].float(), model.first.weight.sum(1), rtol=1e-2, atol=1e-2)
