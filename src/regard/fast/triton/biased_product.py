"""A linear layer with bias in half precision on a GPU, with a kernel for the bias's gradient.

PyTorch sums the columns of a tall matrix at less than half of the memory's speed.
"""

from typing import Any, no_type_check

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS, COLUMNS = 32, 64  # of a tile
PROGRAMS = 1024  # of which each sums a part of the rows


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def _summed(x, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < columns
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(1) * ROWS, rows, tl.num_programs(1) * ROWS):
        row = first + tl.arange(0, ROWS)
        places = row[:, None].to(tl.int64) * columns + column[None, :]
        total += tl.load(x + places, mask=(row < rows)[:, None] & inside[None, :], other=0.0).to(tl.float32)
    tl.store(out + tl.program_id(1) * columns + column, tl.sum(total, 0), mask=inside)


def column_sums(x: Float[Tensor, "rows columns"]) -> Float[Tensor, " columns"]:
    """The sums of all columns in float32, in an order that depends on the shape alone."""
    rows, columns = x.shape
    width = triton.cdiv(columns, COLUMNS)
    parts = max(1, min(triton.cdiv(rows, ROWS), PROGRAMS // width))
    sums = x.new_empty(parts, columns, dtype=torch.float32)
    _summed[(width, parts)](x, sums, rows, columns, ROWS=ROWS, COLUMNS=COLUMNS)
    return sums.sum(0)


class BiasedProduct(torch.autograd.Function):
    """`F.linear` of tensors of one type."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "*rows inputs"],
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"],
    ) -> Float[Tensor, "*rows outputs"]:
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        slopes = gradient.reshape(-1, len(weight)).contiguous()
        of_x = (slopes @ weight).view_as(x) if ctx.needs_input_grad[0] else None
        return of_x, slopes.T @ x.reshape(-1, x.size(-1)), column_sums(slopes).to(weight.dtype)
