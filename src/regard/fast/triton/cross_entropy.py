"""A linear layer to many classes and its cross-entropy on a GPU, some rows at a time."""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

LOGITS_AT_A_TIME = 2**28  # half a gigabyte in bfloat16
BLOCK = 4096
IGNORED = -100  # PyTorch's label for positions without a loss
ALIGNED = 64  # rows of logits begin at multiples of it, so that they are read and written in whole words


@triton.jit
@no_type_check
def _cross_entropy(logits, labels, losses, width, classes, ignored, smoothing, BLOCK: tl.constexpr):
    """Losses of a row, and its logits replaced by the gradient of the first of them.

    Both are zeros if its label is `ignored`.

    A row has `width` places, of which the last ones mean nothing: loads and stores that end at a multiple of
    16 take whole words.
    """
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * width
    label = tl.load(labels + row)
    is_class = (label >= 0) & (label < classes)
    counts = label != ignored
    # before the sums, which wait for all: the second loop overwrites it
    gold_logit = tl.load(start + label, mask=is_class, other=float("nan")).to(tl.float32)
    columns = tl.arange(0, BLOCK)
    greatest = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    linear = tl.full((), 0.0, tl.float32)
    for first in range(0, classes, BLOCK):
        place = first + columns
        inside = place < classes
        value = tl.load(start + place, mask=place < width, other=0.0).to(tl.float32)
        value = tl.where(inside, value, float("-inf"))
        here = tl.maximum(greatest, tl.max(value, 0))
        total = total * tl.exp(greatest - here) + tl.sum(tl.exp(value - here), 0)
        linear += tl.sum(tl.where(inside, value, 0.0), 0)
        greatest = here
    log_sum = greatest + tl.log(total)
    nll = log_sum - gold_logit
    smoothed = (1.0 - smoothing) * nll + smoothing * (log_sum - linear / classes)
    tl.store(losses + 2 * row, tl.where(counts, smoothed, 0.0))
    tl.store(losses + 2 * row + 1, tl.where(counts, nll, 0.0))
    for first in range(0, classes, BLOCK):
        place = first + columns
        value = tl.load(start + place, mask=place < width, other=0.0).to(tl.float32)
        value = tl.where(place < classes, value, float("-inf"))
        gold = tl.where(place == label, 1.0 - smoothing, 0.0)
        found = tl.exp(value - log_sum) - smoothing / classes - gold
        tl.store(start + place, tl.where(counts, found, 0.0), mask=place < width)


class LinearCrossEntropy(torch.autograd.Function):
    """Summed cross-entropies of softmax(x W^T + bias) in nats: with label smoothing, and without.

    As `native.cross_entropy.LinearCrossEntropy`: the gradients are computed in the forward pass, and the
    second sum has none. Products are in `dtype`, sums of float32. Rows whose label is IGNORED do not
    count; another label that is not a class gives NaN.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "tokens d_model"],
        weight: Float[Tensor, "classes d_model"],
        bias: Float[Tensor, " classes"] | None,
        labels: Int64[Tensor, " tokens"],
        smoothing: float,
        dtype: torch.dtype,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        classes, labels = len(weight), labels.contiguous()
        inputs, matrix = x.to(dtype), weight.to(dtype)
        losses, of_x = x.new_empty(len(x), 2, dtype=torch.float32), torch.empty_like(x)
        of_weight, of_bias = (  # None if frozen
            torch.zeros_like(each) if each is not None and wanted else None
            for each, wanted in zip((weight, bias), ctx.needs_input_grad[1:3], strict=True)
        )
        width = triton.cdiv(classes, ALIGNED) * ALIGNED
        rows = min(len(x), max(1, LOGITS_AT_A_TIME // width))
        memory = inputs.new_empty(rows, width)[:, :classes]
        with torch.autocast(x.device.type, enabled=False):
            for first in range(0, len(x), rows):
                piece = slice(first, first + rows)
                logits = memory[: len(inputs[piece])]
                if bias is None:
                    torch.mm(inputs[piece], matrix.T, out=logits)
                else:
                    torch.addmm(bias.to(dtype), inputs[piece], matrix.T, out=logits)
                _cross_entropy[(len(logits),)](
                    logits,
                    labels[piece],
                    losses[piece],
                    width,
                    classes,
                    IGNORED,
                    smoothing,
                    BLOCK=BLOCK,
                    num_warps=8,
                )
                of_x[piece] = logits @ matrix
                if of_weight is not None:
                    of_weight += logits.T @ inputs[piece]
                if of_bias is not None:
                    of_bias += logits.sum(0, dtype=torch.float32)
        total, nll = losses.sum(0)
        ctx.mark_non_differentiable(nll)
        ctx.save_for_backward(of_x, of_weight, of_bias)
        return total, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = [each if each is None else each * gradient for each in ctx.saved_tensors]
        return *found, None, None, None
