"""What a straight line makes of each position alone: embeddings, linear maps, networks, norms."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import relu as rectified

from regard.layers.block import PostNorm, PreNorm, SandwichNorm
from regard.layers.embedding import TokenEmbedding
from regard.layers.feedforward import FeedForward, GatedFeedForward
from regard.layers.int8 import Int8Linear
from regard.layers.norm import RMSNorm
from regard.layers.stacked import StackedLinear
from regard.models.adapters import Adapter
from regard.models.parts import InputEmbedding
from regard.native import kernels
from regard.native.activation import activate, kind_of
from regard.native.embedding import embed
from regard.native.linear import PackedLinear
from regard.native.norm import Norm
from regard.native.plan import Rows

WIDE = 768  # features; more of them (1,024 were tried) MKL adds up in another order where rows are many,
AT_ONCE = 128  # so there are so many rows in a product at most (160 were still equal, 192 were not)

Map = Callable[[Rows], Rows]
AddingMap = Callable[..., Rows]  # the same; a second argument, a residual, is added to what comes out


def has_kernels(module: nn.Module) -> bool:
    """Whether `native/` computes with such weights on this machine. Adapters it does not know."""
    return (
        kernels.available()
        and all(weight.dtype == torch.float32 for weight in module.parameters())
        and not any(isinstance(part, Adapter) for part in module.modules())
    )


def feed_forward(module: nn.Module) -> AddingMap:
    if type(module) is FeedForward:
        if module.activation is rectified:
            inner, outer = linear(module.inner, relu=True), linear(module.outer)
            return lambda x, plus=None: outer(inner(x), plus)
        inner, outer = linear(module.inner), linear(module.outer)
        activation = _activation(module)
        return lambda x, plus=None: outer(activation(inner(x), None), plus)
    if type(module) is GatedFeedForward:
        inner, outer, activation = linear(module.gate_inner), linear(module.outer), _activation(module)
        d_ff = module.outer.in_features

        def gated(x: Rows, plus: Rows = None) -> Rows:
            both = inner(x)
            return outer(activation(both[:, :d_ff], both[:, d_ff:]), plus)

        return gated
    return _adding(module)


def _activation(module: FeedForward | GatedFeedForward) -> Callable[[Rows, Rows], Rows]:
    """Of rows, times others if there are any.

    PyTorch's GELU gives an element the same bits wherever it stands if the rows lie one after the other; its
    SiLU and its GELU by tanh do not.
    """
    plain, kind = module.activation, kind_of(module.activation)
    if has_kernels(module) and kind is not None:
        return lambda x, times: activate(x, kind, times)
    return lambda x, times: plain(x.contiguous()) if times is None else plain(x.contiguous()).mul_(times)


def entering(module: InputEmbedding) -> Callable[[Rows, int | None], Rows]:
    """From the ids of a position to what enters the stack. Without a position a plan is made."""
    if type(module.embedding) is not TokenEmbedding:
        return lambda ids, start: module(ids[:, None], start or 0)[:, 0]
    weight, scale, positions = module.embedding.weight.detach(), module.embedding.scale, module.positions
    after = None if type(module.norm) is nn.Identity else norm(module.norm)

    seats = has_kernels(module)

    def enter(ids: Rows, start: int | None) -> Rows:
        plus = None if positions is None or start is None else positions(start, 1)
        if seats:
            x = embed(ids, weight, scale, plus)
        else:
            x = torch.embedding(weight, ids).mul_(scale)
            x = x if plus is None else x + plus
        return x if after is None else after(x)

    return enter


def norm(module: nn.Module) -> Map:
    if type(module) is nn.LayerNorm:
        shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
        if has_kernels(module) and weight is not None:
            return Norm(weight.detach(), None if bias is None else bias.detach(), eps, center=True)
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    if type(module) is RMSNorm:
        shape, weight, eps = module.normalized_shape, module.weight, module.eps
        if has_kernels(module) and weight is not None and eps is not None:
            return Norm(weight.detach(), None, eps, center=False)
        return lambda x: torch.rms_norm(x, shape, weight, eps)
    return module


def linear(module: nn.Module, relu: bool = False) -> AddingMap:
    """The map, and ReLU after it if wished, with its weight in panels or transposed."""
    if type(module) is Int8Linear and kernels.has_int8():
        return PackedLinear(module.weight, module.bias, scale=module.weight_scale, relu=relu)
    if type(module) not in (nn.Linear, StackedLinear):
        return _adding(module, relu)
    assert isinstance(module, nn.Linear)
    weight = module.weight.detach()
    bias = None if module.bias is None else module.bias.detach()
    if has_kernels(module):
        return PackedLinear(weight, bias, relu=relu)
    return _adding(_transposed(weight, bias), relu)


def _transposed(weight: Tensor, bias: Tensor | None) -> Map:
    weight = weight.t().contiguous()

    def product(x: Tensor) -> Tensor:
        return torch.mm(x, weight) if bias is None else torch.addmm(bias, x, weight)

    return _in_pieces(product) if len(weight) > WIDE else product


def _adding(plain: Map, relu: bool = False) -> AddingMap:
    def product(x: Rows, plus: Rows = None) -> Rows:
        out = plain(x) if plus is None else plain(x).add_(plus)
        return out.relu_() if relu else out

    return product


def _in_pieces(product: Map) -> Map:
    return lambda x: (
        product(x) if len(x) <= AT_ONCE else torch.cat([product(part) for part in x.split(AT_ONCE)])
    )


def around(kind: nn.Module, sublayer: AddingMap) -> Callable[..., Rows]:
    """Residual and norm; there is no dropout in decoding."""
    match kind:
        case PostNorm():
            after = norm(kind.norm)
            return lambda x, *seen: after(sublayer(x, x, *seen))
        case PreNorm():
            before = norm(kind.norm)
            return lambda x, *seen: sublayer(before(x), x, *seen)
        case SandwichNorm():
            before, after = norm(kind.norm_before), norm(kind.norm_after)
            return lambda x, *seen: x + after(sublayer(before(x), None, *seen))
    raise TypeError(f"{type(kind).__name__} is no way around a sub-layer")
