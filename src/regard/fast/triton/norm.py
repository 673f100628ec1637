"""Residual connection, dropout and norm in one pass over memory of a GPU, and their gradients."""

from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

PROGRAMS = 1024  # of a backward pass: each sums the gradients of gain and bias over its rows


@triton.jit(do_not_specialize=["seed"])
@no_type_check
def _normed(
    residual, x, gain, bias, added, out, moments, seed, p, eps, features,
    ADDS: tl.constexpr, DROPS: tl.constexpr, CENTERS: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < features
    at = row * features + columns
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if DROPS:
        value = tl.where(tl.rand(seed, at) >= p, value / (1.0 - p), 0.0)
    if ADDS:
        value += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(added + at, value, mask=inside)
    mean = 0.0
    if CENTERS:
        mean = tl.sum(value, 0) / features
        value = tl.where(inside, value - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, 0) / features + eps)
    tl.store(moments + 2 * row, mean)
    tl.store(moments + 2 * row + 1, scale)
    found = value * scale * tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        found += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, found, mask=inside)


@triton.jit(do_not_specialize=["seed", "rows"])
@no_type_check
def _normed_backward(
    gradient, added, moments, gain, of_sum, of_x, of_gain, of_bias, seed, p, rows, features,
    DROPS: tl.constexpr, CENTERS: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < features
    weight = tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
    sum_of_gain = tl.zeros((BLOCK,), tl.float32)
    sum_of_bias = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        at = row * features + columns
        mean = tl.load(moments + 2 * row)
        scale = tl.load(moments + 2 * row + 1)
        value = tl.load(added + at, mask=inside, other=0.0).to(tl.float32)
        value = tl.where(inside, (value - mean) * scale, 0.0)
        slope = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
        sum_of_gain += slope * value
        if HAS_BIAS:
            sum_of_bias += slope
        slope *= weight
        found = slope - value * (tl.sum(slope * value, 0) / features)
        if CENTERS:
            found -= tl.sum(slope, 0) / features
        found *= scale
        tl.store(of_sum + at, found, mask=inside)
        if DROPS:
            found = tl.where(tl.rand(seed, at) >= p, found / (1.0 - p), 0.0)
        tl.store(of_x + at, found, mask=inside)
    tl.store(of_gain + program * features + columns, sum_of_gain, mask=inside)
    if HAS_BIAS:
        tl.store(of_bias + program * features + columns, sum_of_bias, mask=inside)


class Drops(NamedTuple):
    """Elements are set to 0 with probability `p`, by random numbers of this seed."""

    p: float
    seed: int


class Norm(NamedTuple):
    """The settings of a norm; the mean is subtracted if it `centers`."""

    eps: float
    centers: bool
    dtype: torch.dtype  # of the output


class AddNorm(torch.autograd.Function):
    """norm(residual + dropout(x)); without a residual norm(x). All sums are of float32."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        residual: Float[Tensor, "*rows features"] | None,
        x: Float[Tensor, "*rows features"],
        gain: Float[Tensor, " features"],
        bias: Float[Tensor, " features"] | None,
        norm: Norm,
        drops: Drops,
    ) -> Float[Tensor, "*rows features"]:
        x, features = x.contiguous(), x.size(-1)
        residual = None if residual is None else residual.contiguous()
        rows = x.numel() // features
        added = x if residual is None else torch.empty_like(
            x, dtype=torch.promote_types(x.dtype, residual.dtype)
        )  # fmt: skip
        out, moments = torch.empty_like(x, dtype=norm.dtype), x.new_empty(rows, 2, dtype=torch.float32)
        _normed[(rows,)](
            residual, x, gain, bias, added, out, moments, drops.seed, drops.p, norm.eps, features,
            ADDS=residual is not None, DROPS=drops.p > 0, CENTERS=norm.centers, HAS_BIAS=bias is not None,
            BLOCK=triton.next_power_of_2(features), num_warps=_warps(features),
        )  # fmt: skip
        ctx.norm, ctx.drops, ctx.dtype = norm, drops, x.dtype
        ctx.adds, ctx.has_bias = residual is not None, bias is not None
        ctx.save_for_backward(added, moments, gain)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        added, moments, gain = ctx.saved_tensors
        rows, features, gradient = len(moments), len(gain), gradient.contiguous()
        of_sum = torch.empty_like(added)
        is_one = not ctx.drops.p and ctx.dtype == added.dtype
        of_x = of_sum if is_one else torch.empty_like(added, dtype=ctx.dtype)
        programs = min(rows, PROGRAMS)
        sums = gain.new_empty(1 + ctx.has_bias, programs, features, dtype=torch.float32)
        _normed_backward[(programs,)](
            gradient, added, moments, gain, of_sum, of_x, sums[0], sums[-1], ctx.drops.seed, ctx.drops.p,
            rows, features, DROPS=ctx.drops.p > 0, CENTERS=ctx.norm.centers, HAS_BIAS=ctx.has_bias,
            BLOCK=triton.next_power_of_2(features), num_warps=_warps(features),
        )  # fmt: skip
        of_gain, *of_bias = sums.sum(1).to(gain.dtype)
        return of_sum if ctx.adds else None, of_x, of_gain, of_bias[0] if of_bias else None, None, None


def _warps(features: int) -> int:
    return min(16, max(1, triton.next_power_of_2(features) // 256))
