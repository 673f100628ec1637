"""Linear layers with narrow copies of their weights compute what PyTorch's autocast computes."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.fast.half_linear import HalfProduct, NarrowWeights, half_product, share_narrow_weights
from regard.fast.training import fuse, unfuse
from tests.fast.test_decoding_step import translator


def layers():
    torch.manual_seed(0)
    return [nn.Linear(6, 8), nn.Linear(8, 4, bias=False)]


@pytest.mark.parametrize("has_bias", [True, False])
def test_products_and_gradients_are_those_of_autocast(has_bias):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(3, 5, 6), torch.randn(8, 6), torch.randn(8) if has_bias else None
    found = []
    for kind in ("autocast", "ours"):
        leaves = [each if each is None else each.clone().requires_grad_() for each in (x, weight, bias)]
        if kind == "ours":
            narrow = [each if each is None else each.detach().bfloat16() for each in leaves[1:]]
            out = HalfProduct.apply(*leaves, *narrow)
        else:
            with torch.autocast("cpu", torch.bfloat16):
                out = F.linear(*leaves)
        assert out.dtype == torch.bfloat16
        torch.manual_seed(1)
        (out * torch.randn(out.shape)).sum().backward()
        found.append([out, *(each.grad for each in leaves if each is not None)])
    for one, two in zip(*found, strict=True):
        assert one.dtype == two.dtype
        torch.testing.assert_close(two, one, atol=0.1, rtol=0.02)


def test_copies_are_cast_anew_when_any_weight_has_changed():
    first, second = layers()
    copies = NarrowWeights([first, second])
    for weight in (first.weight, first.bias, second.weight):
        assert torch.equal(copies.of(weight, torch.bfloat16), weight.bfloat16())
    with torch.no_grad():
        first.weight.add_(1)
    assert torch.equal(copies.of(second.weight, torch.bfloat16), second.weight.bfloat16())
    assert torch.equal(copies.of(first.weight, torch.bfloat16), first.weight.bfloat16())
    second.weight.data = torch.randn(4, 8)
    assert torch.equal(copies.of(second.weight, torch.bfloat16), second.weight.bfloat16())
    assert copies.of(first.bias, torch.float16).dtype == torch.float16


def test_a_copy_that_is_cast_between_the_passes_is_noticed():
    first, second = layers()
    copies = NarrowWeights([first, second])
    x = torch.randn(3, 6, requires_grad=True)
    out = HalfProduct.apply(x, first.weight, None, copies.of(first.weight, torch.bfloat16), None)
    with torch.no_grad():
        first.weight.add_(1)
    copies.of(first.weight, torch.bfloat16)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_on_a_cpu_layers_compute_as_they_are_and_keep_nothing():
    model = translator().train()
    before = model.state_dict()
    fuse(model)
    assert not any("narrow_weights" in vars(module) for module in model.modules())
    unfuse(model)
    layer = nn.Linear(6, 8)
    share_narrow_weights(nn.Sequential(layer))
    x = torch.randn(2, 6)
    assert torch.equal(half_product(layer, x), layer(x))
    assert torch.equal(half_product(layer, x, has_bias=False), F.linear(x, layer.weight))
    assert model.state_dict().keys() == before.keys()
