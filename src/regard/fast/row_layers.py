"""Linear layers, norms, feed-forward networks and residual connections, by kernels for rows.

Each is made once from its module. It is called with a tensor of rows (the positions of an encoder) or with a
`PlannedResult` (the next positions of a decoder). A row's result does not depend on its batch, to the bit.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch.nn.functional as F
from torch import nn

from regard.fast.activation_kinds import kernel_kind
from regard.fast.int8 import Int8Linear
from regard.fast.native.activation import activate
from regard.fast.native.embedding import plan_embedding
from regard.fast.native.linear import PackedLinear
from regard.fast.native.norm import PackedNorm
from regard.fast.native.plan import PlannedResult, Rows, UnsupportedPart, add
from regard.fast.training import plain_type
from regard.layers.attention import MultiHeadAttention
from regard.layers.block import PostNorm, PreNorm, SandwichNorm
from regard.layers.feedforward import FeedForward, GatedFeedForward
from regard.layers.norm import RMSNorm
from regard.layers.stacked import StackedLinear
from regard.models.parts import InputEmbedding


@runtime_checkable
class RowLayer(Protocol):
    """[rows, in_features] -> [rows, out_features]; a residual is added if there is one."""

    def __call__(self, x: Rows, residual: Rows | None = None) -> Rows: ...


@runtime_checkable
class RowNorm(Protocol):
    """[rows, features] -> the same shape."""

    def __call__(self, x: Rows) -> Rows: ...


@runtime_checkable
class ResidualConnection(Protocol):
    """Applies a sub-layer (a function of rows and of a residual to add) with residual connection and norm."""

    def __call__(self, x: Rows, sublayer: Callable[[Rows, Rows | None], Rows]) -> Rows: ...


def row_linear(module: nn.Module, relu: bool = False) -> PackedLinear:
    """The linear layer, followed by ReLU if `relu`."""
    if type(module) is Int8Linear:
        return PackedLinear(module.weight, module.bias, scale=module.weight_scale, relu=relu)
    if plain_type(module) not in (nn.Linear, StackedLinear):
        raise UnsupportedPart(f"{type(module).__name__} is not a linear layer with a kernel")
    assert isinstance(module, nn.Linear)
    bias = None if module.bias is None else module.bias.detach()
    return PackedLinear(module.weight.detach(), bias, relu=relu)


def row_feed_forward(module: nn.Module) -> RowLayer:
    """The feed-forward network of a block."""
    kind = plain_type(module)
    if kind is FeedForward:
        assert isinstance(module, FeedForward)
        return _feed_forward(module)
    if kind is GatedFeedForward:
        assert isinstance(module, GatedFeedForward)
        return _gated(module)
    raise UnsupportedPart(f"{type(module).__name__} is not a feed-forward network with a kernel")


def _feed_forward(module: FeedForward) -> RowLayer:
    relu = module.activation is F.relu
    inner, outer = row_linear(module.inner, relu=relu), row_linear(module.outer)
    activation = None if relu else _activation(module)

    def network(x: Rows, residual: Rows | None = None) -> Rows:
        hidden = inner(x)
        return outer(hidden if activation is None else activate(hidden, activation), residual)

    return network


def _gated(module: GatedFeedForward) -> RowLayer:
    inner, outer, activation = row_linear(module.gate_inner), row_linear(module.outer), _activation(module)
    d_ff = outer.features

    def network(x: Rows, residual: Rows | None = None) -> Rows:
        both = inner(x)
        return outer(activate(both[:, :d_ff], activation, both[:, d_ff:]), residual)

    return network


def _activation(module: FeedForward | GatedFeedForward) -> int:
    kind = kernel_kind(module.activation)
    if kind is None:
        name = getattr(module.activation, "__name__", module.activation)
        raise UnsupportedPart(f"there is no kernel for the activation {name}")
    return kind


def row_embedding(module: InputEmbedding) -> Callable[[PlannedResult], PlannedResult]:
    """Ids of a position -> inputs of the stack; the position's vector is an argument of each run."""
    weight, scale = module.embedding.weight.detach(), module.embedding.scale
    after = row_norm(module.norm)
    return lambda ids: after(plan_embedding(ids, weight, scale))


def row_norm(module: nn.Module) -> RowNorm:
    """Layer norm, RMS norm, or nothing (`nn.Identity`)."""
    if type(module) is nn.Identity:
        return _same
    if type(module) is nn.LayerNorm and module.weight is not None:
        bias = None if module.bias is None else module.bias.detach()
        return PackedNorm(module.weight.detach(), bias, module.eps, center=True)
    if plain_type(module) is RMSNorm and isinstance(module, RMSNorm) and module.eps is not None:
        return PackedNorm(module.weight.detach(), None, module.eps, center=False)
    raise UnsupportedPart(f"{type(module).__name__} is not a norm with a kernel")


def _same(x: Rows) -> Rows:
    return x


def row_residual(module: nn.Module) -> ResidualConnection:
    """The residual connection and norm of a sub-layer, without dropout."""
    kind = plain_type(module)
    if kind is PostNorm:
        assert isinstance(module, PostNorm)
        return _post_norm(row_norm(module.norm))
    if kind is PreNorm:
        assert isinstance(module, PreNorm)
        return _pre_norm(row_norm(module.norm))
    if kind is SandwichNorm:
        assert isinstance(module, SandwichNorm)
        return _sandwich_norm(row_norm(module.norm_before), row_norm(module.norm_after))
    raise UnsupportedPart(f"{type(module).__name__} is not a residual connection with kernels")


def _post_norm(after: RowNorm) -> ResidualConnection:
    def connection(x: Rows, sublayer: Callable[[Rows, Rows | None], Rows]) -> Rows:
        return after(sublayer(x, x))

    return connection


def _pre_norm(before: RowNorm) -> ResidualConnection:
    def connection(x: Rows, sublayer: Callable[[Rows, Rows | None], Rows]) -> Rows:
        return sublayer(before(x), x)

    return connection


def _sandwich_norm(before: RowNorm, after: RowNorm) -> ResidualConnection:
    def connection(x: Rows, sublayer: Callable[[Rows, Rows | None], Rows]) -> Rows:
        return add(x, after(sublayer(before(x), None)))

    return connection


def scale_of(module: MultiHeadAttention) -> float:
    """The factor of an attention's scores."""
    return module.d_head**-0.5 if module.scale is None else module.scale
