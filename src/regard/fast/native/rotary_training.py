"""Rotary position embedding for training: many positions, and the gradient (rotary.c)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.fast.native.kernels import kernel, threads_for
from regard.fast.native.residual import PASS


class TrainingRotation(torch.autograd.Function):
    """The first features of each head, rotated by the sines and cosines of its position (Su et al. 2021)."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "batch heads len d_head"],
        sines: Float[Tensor, "len rotary_dim"],
        cosines: Float[Tensor, "len rotary_dim"],
    ) -> Float[Tensor, "batch heads len d_head"]:
        ctx.save_for_backward(sines, cosines)
        return _rotated(x, sines, cosines, 1.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        sines, cosines = ctx.saved_tensors
        return _rotated(gradient, sines, cosines, -1.0), None, None


def _rotated(x: Tensor, sines: Tensor, cosines: Tensor, sign: float) -> Tensor:
    """In memory the result has positions before heads, as linear layers have them."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    batch, heads, length, d = x.shape
    out = x.new_empty(batch, length, heads, d)
    kernel("rotate_positions")(
        x.data_ptr(), *x.stride()[:3], batch, heads, length, d, sines.size(1), sines.data_ptr(),
        cosines.data_ptr(), sign, out.data_ptr(), threads_for(PASS * x.numel()),
    )  # fmt: skip
    return out.transpose(1, 2)
