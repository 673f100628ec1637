"""Rotary positions in training on a GPU: both halves of a head are turned in one pass over memory."""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 64  # positions of a program


@triton.jit(do_not_specialize=["length"])
@no_type_check
def _turned(
    x, positions, sine, cosine, out, sign, length, x_row, x_head, x_at, out_row, out_head, out_at,
    HAS_POSITIONS: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head, row = tl.program_id(1), tl.program_id(2).to(tl.int64)
    feature, inside = tl.arange(0, HALF)[None, :], (at < length)[:, None]
    position = at
    if HAS_POSITIONS:
        position = tl.load(positions + at, mask=at < length, other=0).to(tl.int32)
    angle = position[:, None] * (2 * HALF) + feature
    s = tl.load(sine + angle, mask=inside, other=0.0) * sign
    c = tl.load(cosine + angle, mask=inside, other=0.0)
    places = x + row * x_row + head * x_head + at[:, None].to(tl.int64) * x_at + feature
    first = tl.load(places, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(places + HALF, mask=inside, other=0.0).to(tl.float32)
    places = out + row * out_row + head * out_head + at[:, None].to(tl.int64) * out_at + feature
    tl.store(places, first * c - second * s, mask=inside)
    tl.store(places + HALF, second * c + first * s, mask=inside)


class Rotation(torch.autograd.Function):
    """Queries or keys turned by their positions (Su et al. 2021), in their own type."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "batch heads len d_head"],
        positions: Int64[Tensor, " len"] | None,
        sine: Float[Tensor, "places d_head"],
        cosine: Float[Tensor, "places d_head"],
    ) -> Float[Tensor, "batch heads len d_head"]:
        ctx.save_for_backward(positions, sine, cosine)
        return _rotated(x, positions, sine, cosine, 1.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _rotated(gradient, *ctx.saved_tensors, -1.0), None, None, None


def _rotated(x: Tensor, positions: Tensor | None, sine: Tensor, cosine: Tensor, sign: float) -> Tensor:
    x = x if x.stride(-1) == 1 else x.contiguous()
    out = torch.empty_like(x.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
    rows, heads, length, width = x.shape
    strides = (tensor.stride(axis) for tensor in (x, out) for axis in range(3))
    _turned[(triton.cdiv(length, BLOCK), heads, rows)](
        x, positions, sine.contiguous(), cosine.contiguous(), out, sign, length, *strides,
        HAS_POSITIONS=positions is not None, HALF=width // 2, BLOCK=BLOCK,
    )  # fmt: skip
    return out
