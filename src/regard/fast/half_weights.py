"""Weights of linear layers in half precision, for training under autocast: cast by one operation.

Autocast casts each weight and bias by an operation of its own, and each gradient back by another. A small
model is bound by the launches of such short operations. Here all weights are cast by one, and all gradients.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.fast.fusible import can_be_fused_on_gpu
from regard.fast.half_copies import copies_are_used, half_of
from regard.fast.unchanged import any_module_is_hooked, has_hooks
from regard.layers.stacked import StackedLinear


class CastWeights(torch.autograd.Function):
    """Copies of weights in another type, by one operation, whose gradients are cast back by one."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.dtype = weights[0].dtype
        ctx.set_materialize_grads(False)
        return _cast(weights, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = iter(_cast([each for each in gradients if each is not None], ctx.dtype))
        return None, *(None if each is None else next(found) for each in gradients)


def _cast(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    if torch.is_grad_enabled():  # in a backward pass whose own gradients are needed
        return tuple(each.to(dtype) for each in tensors)
    copies = tuple(torch.empty_like(each, dtype=dtype) for each in tensors)
    if copies:
        torch._foreach_copy_(copies, list(tensors))  # pyright: ignore[reportPrivateImportUsage]
    return copies


class Copy(NamedTuple):
    """A weight when it was cast, and its copy."""

    weight: Tensor
    version: int
    half: Tensor

    def is_of(self, weight: Tensor) -> bool:
        """True if `weight` is the one that was cast, and has not changed since."""
        return weight is self.weight and weight._version == self.version


Copies = dict[int, tuple[Copy, Copy | None]]  # of weight and bias, by the id of the layer
_copies: ContextVar[Copies | None] = ContextVar("copies of weights", default=None)


def product(layer: nn.Linear, x: Float[Tensor, "*rows inputs"], *, bias: bool = True) -> Tensor:
    """`layer(x)`, or without its bias: within `half_weights` with the copies of its weights and of `x`.

    Within `half_copies.copies` on a GPU, a kernel computes the gradient of the bias.
    """
    copies = None if torch.compiler.is_compiling() else _copies.get()
    found = None if copies is None else copies.get(id(layer))
    if found is None or not _is_valid(layer, x, *found):
        return F.linear(x, layer.weight, layer.bias if bias else None)
    weight, of_bias, x = *found, half_of(x)
    if not bias or of_bias is None:
        return F.linear(x, weight.half)
    if copies_are_used() and can_be_fused_on_gpu(x):
        from regard.fast.triton.biased_product import BiasedProduct

        return BiasedProduct.apply(x.to(weight.half.dtype), weight.half, of_bias.half)
    return F.linear(x, weight.half, of_bias.half)


def _is_valid(layer: nn.Linear, x: Tensor, weight: Copy, bias: Copy | None) -> bool:
    device = x.device.type
    return (
        weight.is_of(layer.weight)
        and (layer.bias is None if bias is None else bias.is_of(layer.bias))
        and torch.is_autocast_enabled(device)
        and torch.get_autocast_dtype(device) == weight.half.dtype
    )


class HalfLinear(nn.Linear):
    """`nn.Linear` whose weights `half_weights` casts."""

    def forward(self, input: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return product(self, input)


class HalfStackedLinear(StackedLinear):
    """`StackedLinear` whose weights `half_weights` casts."""

    def forward(self, input: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return product(self, input)


HALF_FORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: HalfLinear,
    StackedLinear: HalfStackedLinear,
}


@contextmanager
def half_weights(model: nn.Module) -> Iterator[None]:
    """A context in which layers of these forms use copies of their weights in the type of autocast.

    It ends before the backward pass. Without autocast it does nothing. A layer computes with its own weights
    if one of them has no gradient or has changed, or if it has a hook.
    """
    layers = list(_layers(model)) if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))) else []
    if not layers or not torch.is_grad_enabled() or any_module_is_hooked():
        yield
        return
    token = _copies.set(_copies_of(layers))
    try:
        yield
    finally:
        _copies.reset(token)


def _layers(model: nn.Module) -> Iterator[nn.Linear]:
    kinds = tuple(HALF_FORMS.values())
    for module in model.modules():
        if type(module) in kinds and _has_copies(layer := cast(nn.Linear, module)):
            yield layer


def _copies_of(layers: Sequence[nn.Linear]) -> Copies:
    dtype = torch.get_autocast_dtype(layers[0].weight.device.type)
    halves = iter(CastWeights.apply(dtype, *(weight for layer in layers for weight in _weights(layer))))

    def copy(weight: Tensor | None) -> Copy | None:
        return None if weight is None else Copy(weight, weight._version, next(halves))

    return {id(layer): (cast(Copy, copy(layer.weight)), copy(layer.bias)) for layer in layers}


def _has_copies(layer: nn.Linear) -> bool:
    device = layer.weight.device.type
    return (
        layer.training
        and torch.is_autocast_enabled(device)
        and torch.get_autocast_dtype(device) != torch.float32
        and not has_hooks(layer)
        and all(
            type(weight) is nn.Parameter
            and weight.dtype == torch.float32
            and weight.requires_grad
            and not weight._backward_hooks
            for weight in _weights(layer)
        )
    )


def _weights(layer: nn.Linear) -> list[Tensor]:
    return [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
