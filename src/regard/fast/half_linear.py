"""Linear layers for training on a GPU in half precision, with weights in float32.

PyTorch's autocast casts each weight by an operation of its own, and each gradient back. Here all weights of a
model are cast by one operation after they have changed, and products sum gradients in float32.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.fast.fusible import is_transformed
from regard.layers.stacked import StackedLinear


class NarrowWeights:
    """Copies of the weights and biases of some layers in half precision."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        self._layers = layers
        self._states: dict[int, tuple[int, int, torch.dtype]] = {}
        self._copies: dict[int, Tensor] = {}

    def of(self, weight: nn.Parameter, dtype: torch.dtype) -> Tensor:
        """The copy of this weight, cast anew with all others if it has changed."""
        if self._states.get(id(weight)) != _state(weight, dtype):
            self._cast(dtype)
        return self._copies[id(weight)]

    @torch.no_grad()
    def _cast(self, dtype: torch.dtype) -> None:
        of_layers = (weight for layer in self._layers for weight in (layer.weight, layer.bias))
        weights = {id(weight): weight for weight in of_layers if weight is not None}
        for key, weight in weights.items():
            known = self._copies.get(key)
            if known is None or known.dtype != dtype or known.shape != weight.shape:
                self._copies[key] = torch.empty_like(weight, dtype=dtype)
            self._states[key] = _state(weight, dtype)
        copies = [self._copies[key] for key in weights]
        torch._foreach_copy_(copies, list(weights.values()))  # pyright: ignore[reportPrivateImportUsage]


def _state(weight: Tensor, dtype: torch.dtype) -> tuple[int, int, torch.dtype]:
    return weight.data_ptr(), weight._version, dtype


class HalfProduct(torch.autograd.Function):
    """x W^T + bias by the narrow copies of `weight` and `bias`, which get gradients in their own type."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "*rows inputs"],
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None,
        narrow_weight: Float[Tensor, "outputs inputs"],
        narrow_bias: Float[Tensor, " outputs"] | None,
    ) -> Float[Tensor, "*rows outputs"]:
        narrow = x.to(narrow_weight.dtype)
        ctx.save_for_backward(narrow, narrow_weight)
        ctx.dtype, ctx.has_bias = x.dtype, bias is not None
        return F.linear(narrow, narrow_weight, narrow_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        rows, inputs = gradient.reshape(-1, gradient.size(-1)), x.reshape(-1, x.size(-1))
        of_x, of_weight, of_bias, *_ = ctx.needs_input_grad
        return (
            _product(rows, weight, ctx.dtype).view(x.shape) if of_x else None,
            _product(rows.T, inputs, torch.float32) if of_weight else None,
            _product(_ones(rows), rows, torch.float32)[0] if ctx.has_bias and of_bias else None,
            None,
            None,
        )


def _product(
    left: Float[Tensor, "rows inner"], right: Float[Tensor, "inner columns"], dtype: torch.dtype
) -> Float[Tensor, "rows columns"]:
    """left @ right, summed in float32, in this type."""
    if dtype == left.dtype:
        return left @ right
    if left.device.type == "cuda" and dtype == torch.float32 and has_wide_products(left.device, left.dtype):
        return torch.ops.aten.mm.dtype(left, right, dtype)
    return (left @ right).to(dtype)


@cache
def has_wide_products(device: torch.device, dtype: torch.dtype) -> bool:
    """True if products of this type can be returned in float32 here."""
    try:
        ones = torch.ones(16, 16, device=device, dtype=dtype)
        torch.ops.aten.mm.dtype(ones, ones, torch.float32)
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    return True


_known_ones: dict[tuple[torch.device, torch.dtype], Tensor] = {}


def _ones(rows: Float[Tensor, "rows columns"]) -> Float[Tensor, "1 rows"]:
    """As many ones as there are rows: their product with them is the sum of the rows."""
    key = rows.device, rows.dtype
    if key not in _known_ones or _known_ones[key].size(1) < len(rows):
        _known_ones[key] = rows.new_ones(1, 2 * len(rows))
    return _known_ones[key][:, : len(rows)]


def half_product(layer: nn.Linear, x: Float[Tensor, "*rows inputs"], *, has_bias: bool = True) -> Tensor:
    """What the layer computes, with its bias or without."""
    bias = layer.bias if has_bias else None
    copies: NarrowWeights | None = vars(layer).get("narrow_weights")
    if copies is None or not _is_trained_in_half_precision(layer, x):
        return F.linear(x, layer.weight, bias)
    dtype = torch.get_autocast_dtype("cuda")
    narrow_bias = None if bias is None else copies.of(bias, dtype)
    return HalfProduct.apply(x, layer.weight, bias, copies.of(layer.weight, dtype), narrow_bias)


def _is_trained_in_half_precision(layer: nn.Linear, x: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and x.device.type == "cuda"
        and torch.is_autocast_enabled("cuda")
        and torch.is_grad_enabled()
        and layer.training
        and layer.weight.dtype == torch.float32
        and type(x) is Tensor
        and x.is_floating_point()
        and not is_transformed()
    )


class HalfLinear(nn.Linear):
    """`nn.Linear` by `half_product`."""

    def forward(self, input: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return half_product(self, input)


class HalfStackedLinear(StackedLinear):
    """`StackedLinear` by `half_product`."""

    def forward(self, input: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return half_product(self, input)


HALF_FORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: HalfLinear,
    StackedLinear: HalfStackedLinear,
}


def share_narrow_weights(model: nn.Module) -> None:
    """Gives all layers of `HALF_FORMS` in the model one set of copies."""
    layers = [each for each in model.modules() if isinstance(each, HalfLinear | HalfStackedLinear)]
    copies = NarrowWeights(layers)
    for layer in layers:
        vars(layer)["narrow_weights"] = copies


def drop_narrow_weights(layer: nn.Module) -> None:
    """Takes the copies of a layer away."""
    vars(layer).pop("narrow_weights", None)
