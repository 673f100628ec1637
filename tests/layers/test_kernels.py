"""Kernels of attentions: exchanged without a trace, and distinguished."""

import gc
import weakref

import pytest
import torch
from torch import nn

from regard.fast.training import fused
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.kernels import around, exchanged, has_own_kernel, kernel_of, softcap_of
from regard.layers.scaled_dot_product import attention, fused_attention, plain_attention


class Method(SelfAttention):
    def attend(self, *given):
        return 2 * plain_attention(*given)


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, *given):
        return self.gain * plain_attention(*given)


def with_part():
    made = SelfAttention(8, 2)
    made.attend = Part()
    return made


@pytest.mark.parametrize("make", [lambda: SelfAttention(8, 2), lambda: Method(8, 2), with_part])
def test_an_exchanged_kernel_leaves_nothing_behind(make):
    module, x = make(), torch.randn(1, 3, 8)
    before, attributes, names = module(x, x), dict(vars(module)), [name for name, _ in module.named_modules()]
    with exchanged(module, lambda *given: 0 * plain_attention(*given)):
        assert torch.equal(module(x, x), module.output(torch.zeros(1, 3, 8)))
    with pytest.raises(ZeroDivisionError), exchanged(module, plain_attention):
        raise ZeroDivisionError
    assert torch.equal(module(x, x), before)
    assert vars(module) == attributes
    assert [name for name, _ in module.named_modules()] == names


def test_an_object_with_a_kernel_of_its_class_is_freed_at_once_after_training():
    """A bound method in its object is a reference cycle."""
    module = Method(8, 2)
    with fused(module):
        pass
    assert "attend" not in vars(module)
    alive = weakref.ref(module)
    gc.disable()
    try:
        del module
        assert alive() is None
    finally:
        gc.enable()


def test_kernels_of_regard_are_known_and_others_are_not():
    usual, capped = SelfAttention(8, 2), MultiHeadAttention(8, 2, softcap=3.0)
    assert not has_own_kernel(usual)
    assert (has_own_kernel(capped), softcap_of(capped), softcap_of(usual)) == (False, 3.0, None)
    for kernel in (attention, plain_attention, fused_attention):
        with exchanged(usual, kernel):
            assert not has_own_kernel(usual)
    with fused(usual):
        assert usual.attend is not attention
        assert not has_own_kernel(usual)
    assert usual.attend is attention
    assert has_own_kernel(Method(8, 2))
    assert has_own_kernel(with_part())
    with exchanged(usual, around(attention, lambda *given: attention(*given))):
        assert kernel_of(usual) is attention
    with exchanged(usual, lambda *given: attention(*given)):
        assert has_own_kernel(usual)
