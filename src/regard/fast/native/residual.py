"""Dropout, residual, layer norm and ReLU with their gradients, in one pass over memory (residual.c)."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int16
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.fast.native.kernels import kernel, threads_for

PASS = 16  # multiplications that take as long as reading and writing an element


class DropoutBits(NamedTuple):
    """Elements whose random `bits` are below `dropped` are dropped; the others are multiplied by `kept`."""

    bits: Int16[Tensor, "*shape"] | None
    dropped: int = 0
    kept: float = 1.0

    def arguments(self) -> tuple[int | None, int, float]:
        """The arguments of the kernels."""
        return None if self.bits is None else self.bits.data_ptr(), self.dropped, self.kept


class AddDropped(torch.autograd.Function):
    """residual + dropout(x); without a residual only dropout(x)."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, residual: Float[Tensor, "*shape"] | None, x: Float[Tensor, "*shape"], dropped: DropoutBits
    ) -> Float[Tensor, "*shape"]:
        ctx.dropped = dropped
        return _added(residual, x, dropped)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        of_residual = gradient if ctx.needs_input_grad[0] else None
        return of_residual, _added(None, gradient, ctx.dropped), None


class AddNorm(torch.autograd.Function):
    """The layer norm of residual + dropout(x)."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        residual: Float[Tensor, "*rows features"],
        x: Float[Tensor, "*rows features"],
        gain: Float[Tensor, " features"],
        bias: Float[Tensor, " features"],
        eps: float,
        dropped: DropoutBits,
    ) -> Float[Tensor, "*rows features"]:
        residual, x, gain, bias = (each.contiguous() for each in (residual, x, gain, bias))
        added, out = torch.empty_like(x), torch.empty_like(x)
        rows, features = x.numel() // x.size(-1), x.size(-1)
        moments = x.new_empty(rows, 2)
        kernel("post_norm")(
            residual.data_ptr(), x.data_ptr(), *dropped.arguments(), rows, features, eps, gain.data_ptr(),
            bias.data_ptr(), added.data_ptr(), moments.data_ptr(), out.data_ptr(),
            threads_for(PASS * x.numel()),
        )  # fmt: skip
        ctx.dropped = dropped
        ctx.save_for_backward(added, moments, gain)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        added, moments, gain = ctx.saved_tensors
        gradient, rows, features = gradient.contiguous(), len(moments), len(gain)
        threads = threads_for(PASS * added.numel())
        of_sum = torch.empty_like(added)
        of_x = of_sum if ctx.dropped.bits is None else torch.empty_like(added)
        of_gain, of_bias = added.new_zeros(2, threads, features)
        kernel("post_norm_backward")(
            gradient.data_ptr(), added.data_ptr(), moments.data_ptr(), *ctx.dropped.arguments(), rows,
            features, gain.data_ptr(), of_sum.data_ptr(), of_x.data_ptr(), of_gain.data_ptr(),
            of_bias.data_ptr(), threads,
        )  # fmt: skip
        return of_sum, of_x, of_gain.sum(0), of_bias.sum(0), None, None


class FeedForwardReLU(torch.autograd.Function):
    """dropout(max(0, x W1 + b1)) W2 + b2 (Vaswani et al. 2017, equation 2)."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "rows d_model"],
        inner: Float[Tensor, "d_ff d_model"],
        inner_bias: Float[Tensor, " d_ff"],
        outer: Float[Tensor, "d_model d_ff"],
        outer_bias: Float[Tensor, " d_model"],
        dropped: DropoutBits,
    ) -> Float[Tensor, "rows d_model"]:
        hidden = x @ inner.T
        kernel("relu_dropped")(
            hidden.data_ptr(), inner_bias.data_ptr(), *dropped.arguments(), *hidden.shape,
            threads_for(PASS * hidden.numel()),
        )  # fmt: skip
        ctx.kept = dropped.kept
        ctx.save_for_backward(x, hidden, inner, outer)
        return torch.addmm(outer_bias, hidden, outer.T)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, hidden, inner, outer = ctx.saved_tensors
        of_x, of_inner, _, of_outer, *_ = ctx.needs_input_grad  # weights may be frozen
        threads = threads_for(PASS * hidden.numel())
        of_hidden = gradient @ outer
        of_bias = hidden.new_zeros(threads, hidden.size(1))
        kernel("relu_dropped_backward")(
            of_hidden.data_ptr(), hidden.data_ptr(), ctx.kept, *hidden.shape, of_bias.data_ptr(), threads
        )
        return (
            of_hidden @ inner if of_x else None,
            of_hidden.T @ x if of_inner else None,
            of_bias.sum(0),
            gradient.T @ hidden if of_outer else None,
            gradient.sum(0),
            None,
        )


def _added(residual: Tensor | None, x: Tensor, dropped: DropoutBits) -> Tensor:
    residual, x = None if residual is None else residual.contiguous(), x.contiguous()
    out = torch.empty_like(x)
    kernel("add_dropped")(
        None if residual is None else residual.data_ptr(), x.data_ptr(), *dropped.arguments(), x.numel(),
        out.data_ptr(), threads_for(PASS * x.numel()),
    )  # fmt: skip
    return out
