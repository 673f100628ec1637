"""Linear layers whose products have bfloat16 factors, for training on a CPU; all else stays float32.

Weights, their gradients, sums and the optimiser are float32: only the factors of a product are rounded to 8
bits of mantissa, and its result. On processors with AMX PyTorch's setting "medium" rounds the factors of
every product, so nothing need be replaced there. On others with instructions for bfloat16 "medium" means
oneDNN in float32, so linear layers are replaced by `BFloat16Linear` in `fast.training.fuse`.
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
    """A context in which `fuse` replaces linear layers."""
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
        narrow = rows.bfloat16()
        return (
            (narrow @ weight).float().view_as(x) if of_x else None,
            (narrow.T @ x.reshape(-1, x.size(-1))).float() if of_weight else None,
            rows.sum(0) if ctx.has_bias and of_bias else None,
        )


def _forward(layer: nn.Linear, x: Tensor) -> Tensor:
    narrow = layer.training and torch.is_grad_enabled() and x.dtype == layer.weight.dtype == torch.float32
    if narrow and not torch.is_autocast_enabled("cpu") and x.device.type == "cpu":
        return LinearProduct.apply(x, layer.weight, layer.bias)
    return F.linear(x, layer.weight, layer.bias)


class BFloat16Linear(nn.Linear):
    """`nn.Linear` by `LinearProduct` in training."""

    def forward(self, input: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return _forward(self, input)


class BFloat16StackedLinear(StackedLinear):
    """`StackedLinear` by `LinearProduct` in training."""

    def forward(self, input: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return _forward(self, input)


BFLOAT16_FORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: BFloat16Linear,
    StackedLinear: BFloat16StackedLinear,
}
