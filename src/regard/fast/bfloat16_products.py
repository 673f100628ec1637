"""Linear layers that multiply in bfloat16, for training on a CPU; everything else stays float32.

The factors and the result of each matrix product are rounded to bfloat16 (8 significant bits). Weights, their
gradients and the optimiser are float32. A processor with AMX does not need these layers: there
`torch.set_float32_matmul_precision("medium")` rounds the factors of every product. On other processors with
bfloat16 instructions "medium" computes in float32, so `fast.training.fuse` replaces linear layers by those of
this file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.layers.stacked import StackedLinear

_active = False


@contextmanager
def bfloat16_products() -> Iterator[None]:
    """A context in which `fast.training.fuse` replaces linear layers by those of `BFLOAT16_FORMS`."""
    global _active
    before, _active = _active, True
    try:
        yield
    finally:
        _active = before


def linear_layers_are_replaced() -> bool:
    """True within `bfloat16_products`."""
    return _active


class LinearProduct(torch.autograd.Function):
    """x W^T + bias with bfloat16 factors, forward and backward; the bias and its gradient are float32."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "*rows inputs"],
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None,
    ) -> Float[Tensor, "*rows outputs"]:
        x, weight = x.bfloat16(), weight.bfloat16()
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        found = F.linear(x, weight).float()
        return found if bias is None else found.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows = gradient.reshape(-1, gradient.size(-1))
        rounded = rows.bfloat16()
        return (
            (rounded @ weight).float().view_as(x) if of_x else None,
            (rounded.T @ x.reshape(-1, x.size(-1))).float() if of_weight else None,
            rows.sum(0) if ctx.has_bias and of_bias else None,
        )


def _forward(layer: nn.Linear, x: Tensor) -> Tensor:
    trains = layer.training and torch.is_grad_enabled()
    is_float32 = x.dtype == layer.weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    if trains and is_float32 and x.device.type == "cpu":
        return LinearProduct.apply(x, layer.weight, layer.bias)
    return F.linear(x, layer.weight, layer.bias)


class BFloat16Linear(nn.Linear):
    """An `nn.Linear` that multiplies in bfloat16 in training, and in the type of its input otherwise."""

    def forward(self, input: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return _forward(self, input)


class BFloat16StackedLinear(StackedLinear):
    """The same for a `StackedLinear`."""

    def forward(self, input: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return _forward(self, input)


# class of a layer -> the class that replaces it
BFLOAT16_FORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: BFloat16Linear,
    StackedLinear: BFloat16StackedLinear,
}
