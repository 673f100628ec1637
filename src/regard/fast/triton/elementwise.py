"""Bias, activation and dropout of a feed-forward network, and dropout with a residual, on a GPU.

The kernels number elements in 32 bits, so a tensor must have fewer than 2**31 of them.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.fast.triton.norm import SEED_IN_MEMORY, Drops

BLOCK = 1024  # elements that a program computes
ROWS, COLUMNS = 64, 64  # of a tile of a backward pass, which sums the gradient of the bias over its rows
RELU, GELU, GELU_TANH = range(3)  # `KIND` of the kernels


@triton.jit(do_not_specialize=["seed"])
@no_type_check
def _activated(
    x, bias, out, seed, p, size, features, KIND: tl.constexpr, DROPS: tl.constexpr, BLOCK: tl.constexpr
):
    if DROPS == SEED_IN_MEMORY:
        seed = tl.load(seed).to(tl.int32)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + at % features, mask=inside, other=0.0).to(tl.float32)
    if KIND == 0:  # RELU
        value = tl.where(value < 0.0, 0.0, value)  # NaN stays NaN; tl.maximum would give 0
    if KIND == 1:  # GELU; the factor of the value is 1 / sqrt(2)
        value = value * 0.5 * (1.0 + tl.erf(value * 0.7071067811865476))
    if KIND == 2:  # GELU_TANH: (1 + tanh z) / 2 is sigmoid(2 z), and its factor is 2 sqrt(2 / pi)
        value = value * tl.sigmoid(1.5957691216057308 * (value + 0.044715 * value * value * value))
    if DROPS:
        value = tl.where(tl.rand(seed, at) >= p, value / (1.0 - p), 0.0)
    tl.store(out + at, value, mask=inside)


@triton.jit(do_not_specialize=["seed", "rows"])
@no_type_check
def _activated_backward(
    gradient, x, bias, of_x, of_bias, seed, p, rows, features,
    KIND: tl.constexpr, DROPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    if DROPS == SEED_IN_MEMORY:
        seed = tl.load(seed).to(tl.int32)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < features)
    at = row * features + column
    slope = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    if DROPS:
        slope = tl.where(tl.rand(seed, at) >= p, slope / (1.0 - p), 0.0)
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + column, mask=column < features, other=0.0).to(tl.float32)
    if KIND == 0:
        slope = tl.where(value <= 0.0, 0.0, slope)  # as in PyTorch, also if the input is NaN
    if KIND == 1:
        below = 0.5 * (1.0 + tl.erf(value * 0.7071067811865476))
        slope *= below + value * 0.3989422804014327 * tl.exp(-0.5 * value * value)
    if KIND == 2:
        share = tl.sigmoid(1.5957691216057308 * (value + 0.044715 * value * value * value))
        inner = 1.5957691216057308 * (1.0 + 0.134145 * value * value)
        slope *= share + value * share * (1.0 - share) * inner
    slope = tl.where(inside, slope, 0.0)
    tl.store(of_x + at, slope, mask=inside)
    places = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(of_bias + tl.program_id(0) * features + places, tl.sum(slope, 0), mask=places < features)


@triton.jit(do_not_specialize=["seed"])
@no_type_check
def _added(residual, x, out, seed, p, size, ADDS: tl.constexpr, DROPS: tl.constexpr, BLOCK: tl.constexpr):
    if DROPS == SEED_IN_MEMORY:
        seed = tl.load(seed).to(tl.int32)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    value = tl.where(tl.rand(seed, at) >= p, value / (1.0 - p), 0.0)
    if ADDS:
        value += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, value, mask=inside)


class ActivateDropped(torch.autograd.Function):
    """dropout(activation(x + bias)), in the type of `x`; `kind` is RELU, GELU or GELU_TANH."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "*rows features"],
        bias: Float[Tensor, " features"],
        kind: int,
        drops: Drops,
    ) -> Float[Tensor, "*rows features"]:
        x = x.contiguous()
        out = torch.empty_like(x)
        _activated[(triton.cdiv(x.numel(), BLOCK),)](
            x, bias, out, drops.seed, drops.p, x.numel(), x.size(-1),
            KIND=kind, DROPS=drops.kind, BLOCK=BLOCK,
        )  # fmt: skip
        ctx.kind, ctx.drops = kind, drops
        ctx.save_for_backward(x, bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, bias = ctx.saved_tensors
        gradient, features = gradient.contiguous(), len(bias)
        rows = x.numel() // features
        grid = triton.cdiv(rows, ROWS), triton.cdiv(features, COLUMNS)
        of_x, of_bias = torch.empty_like(x), x.new_empty(grid[0], features, dtype=torch.float32)
        _activated_backward[grid](
            gradient, x, bias, of_x, of_bias, ctx.drops.seed, ctx.drops.p, rows, features,
            KIND=ctx.kind, DROPS=ctx.drops.kind, ROWS=ROWS, COLUMNS=COLUMNS,
        )  # fmt: skip
        return of_x, of_bias.sum(0).to(bias.dtype), None, None


class AddDropped(torch.autograd.Function):
    """residual + dropout(x), in the wider of their types."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, residual: Float[Tensor, "*shape"], x: Float[Tensor, "*shape"], drops: Drops
    ) -> Float[Tensor, "*shape"]:
        ctx.drops, ctx.dtype = drops, x.dtype
        return _dropped(residual.contiguous(), x, drops, torch.promote_types(residual.dtype, x.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient, _dropped(None, gradient, ctx.drops, ctx.dtype), None


def _dropped(residual: Tensor | None, x: Tensor, drops: Drops, dtype: torch.dtype) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x, dtype=dtype)
    _added[(triton.cdiv(x.numel(), BLOCK),)](
        residual,
        x,
        out,
        drops.seed,
        drops.p,
        x.numel(),
        ADDS=residual is not None,
        DROPS=drops.kind,
        BLOCK=BLOCK,
    )
    return out


def try_a_kernel() -> None:
    """Compile and run one kernel on the current GPU. If this raises any error, no kernel can be used here."""
    one = torch.ones(1, device="cuda")
    _dropped(None, one, Drops(0.5, 1), one.dtype)
    torch.cuda.synchronize()
