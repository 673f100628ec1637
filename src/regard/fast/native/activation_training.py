"""Activation and dropout with their gradients, plain or gated, in one pass over memory (activation.c)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.fast.native.kernels import kernel, threads_for
from regard.fast.native.residual import PASS, DropoutBits

EXPONENTIAL = 64  # multiplications that take as long as an element


class ActivateDropped(torch.autograd.Function):
    """dropout(activation(x)); if `gated`, dropout(activation(gate) * inner) of x = (gate, inner).

    The derivatives are computed with the output, so the backward pass only multiplies by them.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Float[Tensor, "*rows inputs"], kind: int, gated: bool, dropped: DropoutBits
    ) -> Float[Tensor, "*rows features"]:
        x, features = x.contiguous(), x.size(-1) // (1 + gated)
        out, slopes = x.new_empty(*x.shape[:-1], features), torch.empty_like(x)
        kernel("activate_dropped")(
            x.data_ptr(), *dropped.arguments(), out.numel() // features, features, gated, kind,
            out.data_ptr(), slopes.data_ptr(), threads_for(EXPONENTIAL * out.numel()),
        )  # fmt: skip
        ctx.gated = gated
        ctx.save_for_backward(slopes)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (slopes,) = ctx.saved_tensors
        gradient, of_x, features = gradient.contiguous(), torch.empty_like(slopes), gradient.size(-1)
        kernel("activate_dropped_backward")(
            gradient.data_ptr(), slopes.data_ptr(), gradient.numel() // features, features, ctx.gated,
            of_x.data_ptr(), threads_for(PASS * gradient.numel()),
        )  # fmt: skip
        return of_x, None, None, None
