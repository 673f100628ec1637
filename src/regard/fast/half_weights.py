"""Weights of linear layers in half precision, for training under autocast: cast by one operation.

Autocast casts each weight and bias by an operation of its own, and each gradient back by another. A small
model is bound by the launches of such short operations. Here all weights are cast by one, and all gradients.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.fast.half_copies import half_of
from regard.layers.stacked import StackedLinear


class CastWeights(torch.autograd.Function):
    """Copies of weights in another type, by one operation, whose gradients are cast back by one."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.dtype = weights[0].dtype
        ctx.set_materialize_grads(False)
        return _cast(weights, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = iter(_cast([each for each in gradients if each is not None], ctx.dtype))
        return None, *(None if each is None else next(found) for each in gradients)


def _cast(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = tuple(torch.empty_like(each, dtype=dtype) for each in tensors)
    if copies:
        torch._foreach_copy_(copies, list(tensors))  # pyright: ignore[reportPrivateImportUsage]
    return copies


def product(layer: nn.Linear, x: Float[Tensor, "*rows inputs"], *, bias: bool = True) -> Tensor:
    """`layer(x)`, or without its bias: within `half_weights` with the copies of its weights and of `x`."""
    half: tuple[Tensor, Tensor | None] | None = vars(layer).get("half_weights")
    if half is None:
        return F.linear(x, layer.weight, layer.bias if bias else None)
    return F.linear(half_of(x), half[0], half[1] if bias else None)


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
_layers: WeakKeyDictionary[nn.Module, list[nn.Linear]] = WeakKeyDictionary()


def find_layers(model: nn.Module) -> None:
    """Looks for the layers of `model` that have a form of this file; call it when forms have changed."""
    kinds = tuple(HALF_FORMS.values())
    layers = [each for each in model.modules() if type(each) in kinds]
    _layers[model] = [each for each in layers if isinstance(each, nn.Linear)]


@contextmanager
def half_weights(model: nn.Module) -> Iterator[None]:
    """A context in which layers of these forms use copies of their weights in the type of autocast.

    It ends before the backward pass. Without autocast it does nothing, and a layer is left out if one of its
    weights has no gradient, is shared with another layer, or has a hook.
    """
    layers = [layer for layer in _layers.get(model, ()) if _has_copies(layer)]
    uses = _uses(layers)
    layers = [layer for layer in layers if max(uses[id(weight)] for weight in _weights(layer)) == 1]
    if not layers or not torch.is_grad_enabled():
        yield
        return
    dtype = torch.get_autocast_dtype(layers[0].weight.device.type)
    copies = iter(CastWeights.apply(dtype, *(weight for layer in layers for weight in _weights(layer))))
    try:
        for layer in layers:
            vars(layer)["half_weights"] = next(copies), None if layer.bias is None else next(copies)
        yield
    finally:
        for layer in layers:
            vars(layer).pop("half_weights", None)


def _has_copies(layer: nn.Linear) -> bool:
    weights = _weights(layer)
    device = layer.weight.device.type
    return (
        layer.training
        and torch.is_autocast_enabled(device)
        and torch.get_autocast_dtype(device) != torch.float32
        and all(
            type(weight) is nn.Parameter
            and weight.dtype == torch.float32
            and weight.requires_grad
            and not weight._backward_hooks
            for weight in weights
        )
    )


def _weights(layer: nn.Linear) -> list[Tensor]:
    return [layer.weight] if layer.bias is None else [layer.weight, layer.bias]


def _uses(layers: Sequence[nn.Linear]) -> dict[int, int]:
    """How many of the layers have each weight."""
    found: dict[int, int] = {}
    for layer in layers:
        for weight in _weights(layer):
            found[id(weight)] = found.get(id(weight), 0) + 1
    return found
