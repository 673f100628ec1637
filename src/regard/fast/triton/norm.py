"""Residual connection, dropout and norm in one pass over memory of a GPU, and their gradients."""

from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

NONE, SEED_GIVEN, SEED_IN_MEMORY = (
    0,
    1,
    tl.constexpr(2),
)  # whether elements are dropped, and where the seed is
PROGRAMS = 1024  # of a backward pass: each sums the gradients of gain and bias over its rows


@triton.jit(do_not_specialize=["seed"])
@no_type_check
def _normed(
    residual, x, gain, bias, added, out, half, moments, seed, p, eps, features,
    ADDS: tl.constexpr, DROPS: tl.constexpr, CENTERS: tl.constexpr, HAS_BIAS: tl.constexpr,
    HALVES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    if DROPS == SEED_IN_MEMORY:
        seed = tl.load(seed).to(tl.int32)
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
    if HALVES:
        tl.store(half + at, found, mask=inside)


@triton.jit(do_not_specialize=["seed", "rows"])
@no_type_check
def _normed_backward(
    gradient, of_half, passing, added, moments, gain, of_sum, of_x, of_gain, of_bias, seed, p, rows, features,
    HAS_OUT: tl.constexpr, HAS_HALF: tl.constexpr, PASSES: tl.constexpr,
    DROPS: tl.constexpr, CENTERS: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    if DROPS == SEED_IN_MEMORY:
        seed = tl.load(seed).to(tl.int32)
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
        slope = tl.zeros((BLOCK,), tl.float32)
        if HAS_OUT:
            slope += tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
        if HAS_HALF:
            slope += tl.load(of_half + at, mask=inside, other=0.0).to(tl.float32)
        sum_of_gain += slope * value
        if HAS_BIAS:
            sum_of_bias += slope
        slope *= weight
        found = slope - value * (tl.sum(slope * value, 0) / features)
        if CENTERS:
            found -= tl.sum(slope, 0) / features
        found *= scale
        if PASSES:
            found += tl.load(passing + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(of_sum + at, found, mask=inside)
        if DROPS:
            found = tl.where(tl.rand(seed, at) >= p, found / (1.0 - p), 0.0)
        tl.store(of_x + at, found, mask=inside)
    tl.store(of_gain + program * features + columns, sum_of_gain, mask=inside)
    if HAS_BIAS:
        tl.store(of_bias + program * features + columns, sum_of_bias, mask=inside)


class Drops(NamedTuple):
    """Elements are set to 0 with probability `p`, by random numbers of this seed.

    It is a number, or a place in the memory of the GPU that has one when the kernel runs.
    """

    p: float
    seed: int | Int64[Tensor, ""]

    @property
    def kind(self) -> int:
        """The kernel's constant for these: nothing is dropped, or where the seed is."""
        if not self.p:
            return NONE
        return SEED_IN_MEMORY.value if isinstance(self.seed, Tensor) else SEED_GIVEN


class Norm(NamedTuple):
    """The settings of a norm; the mean is subtracted if it `centers`."""

    eps: float
    centers: bool
    dtype: torch.dtype  # of the output
    half: torch.dtype | None = None  # of a second output with the same numbers; None: there is none
    passes: bool = False  # if the sum that is normalised is an output too


class AddNorm(torch.autograd.Function):
    """norm(residual + dropout(x)); without a residual norm(x). All sums are of float32.

    Returns it, its copy in half precision and the sum, of which the last two may be None.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        residual: Float[Tensor, "*rows features"] | None,
        x: Float[Tensor, "*rows features"],
        gain: Float[Tensor, " features"],
        bias: Float[Tensor, " features"] | None,
        norm: Norm,
        drops: Drops,
    ) -> tuple[Float[Tensor, "*rows features"] | None, ...]:
        x, features = x.contiguous(), x.size(-1)
        residual = None if residual is None else residual.contiguous()
        rows = x.numel() // features
        added = x if residual is None else torch.empty_like(
            x, dtype=torch.promote_types(x.dtype, residual.dtype)
        )  # fmt: skip
        out, moments = torch.empty_like(x, dtype=norm.dtype), x.new_empty(rows, 2, dtype=torch.float32)
        half = None if norm.half is None else torch.empty_like(x, dtype=norm.half)
        _normed[(rows,)](
            residual, x, gain, bias, added, out, half, moments, drops.seed, drops.p, norm.eps, features,
            ADDS=residual is not None, DROPS=drops.kind, CENTERS=norm.centers, HAS_BIAS=bias is not None,
            HALVES=half is not None, BLOCK=triton.next_power_of_2(features), num_warps=_warps(features),
        )  # fmt: skip
        ctx.norm, ctx.drops, ctx.dtype = norm, drops, x.dtype
        ctx.adds, ctx.has_bias = residual is not None, bias is not None
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(added, moments, gain)
        return out, half, added if norm.passes else None

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, of_out: Tensor | None, of_half: Tensor | None, passing: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        added, moments, gain = ctx.saved_tensors
        rows, features = len(moments), len(gain)
        given = [each if each is None else each.contiguous() for each in (of_out, of_half, passing)]
        of_sum = torch.empty_like(added)
        is_one = not ctx.drops.p and ctx.dtype == added.dtype
        of_x = of_sum if is_one else torch.empty_like(added, dtype=ctx.dtype)
        programs = min(rows, PROGRAMS)
        sums = gain.new_empty(1 + ctx.has_bias, programs, features, dtype=torch.float32)
        has_out, has_half, passes = (each is not None for each in given)
        _normed_backward[(programs,)](
            *given, added, moments, gain, of_sum, of_x, sums[0], sums[-1], ctx.drops.seed, ctx.drops.p,
            rows, features, HAS_OUT=has_out, HAS_HALF=has_half, PASSES=passes, DROPS=ctx.drops.kind,
            CENTERS=ctx.norm.centers, HAS_BIAS=ctx.has_bias, BLOCK=triton.next_power_of_2(features),
            num_warps=_warps(features),
        )  # fmt: skip
        of_gain, *of_bias = sums.sum(1).to(gain.dtype)
        return of_sum if ctx.adds else None, of_x, of_gain, of_bias[0] if of_bias else None, None, None


def _warps(features: int) -> int:
    return min(16, max(1, triton.next_power_of_2(features) // 256))
