"""A linear layer to many classes and its cross-entropy, some rows at a time (cross_entropy.c)."""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.fast.native.kernels import kernel, threads_for

ROWS_AT_A_TIME = 256  # predictions at a time: their logits fit into the processor's cache


class LinearCrossEntropy(torch.autograd.Function):
    """Summed cross-entropies of softmax(x W^T + bias) in nats: with label smoothing, and without.

    Smoothing is that of Szegedy et al. 2016, section 7. Gradients are computed in the forward pass, while the
    logits are in memory; the second sum has none. No label is ignored.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Float[Tensor, "tokens d_model"],
        weight: Float[Tensor, "classes d_model"],
        bias: Float[Tensor, " classes"] | None,
        labels: Int64[Tensor, " tokens"],
        smoothing: float,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        if len(labels) != len(x):
            raise ValueError(f"{len(labels)} labels of {len(x)} states")
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(weight):
            raise IndexError(f"labels must be 0 to {len(weight) - 1}")
        labels, losses = labels.to(torch.int64).contiguous(), x.new_empty(len(x), 2)
        of_x = torch.empty_like(x)
        of_weight, of_bias = (  # None if frozen
            torch.zeros_like(each) if each is not None and wanted else None
            for each, wanted in zip((weight, bias), ctx.needs_input_grad[1:3], strict=True)
        )
        for first in range(0, len(x), ROWS_AT_A_TIME):
            piece = slice(first, first + ROWS_AT_A_TIME)
            logits = torch.nn.functional.linear(x[piece], weight, bias)
            kernel("cross_entropy")(
                logits.data_ptr(), labels[piece].data_ptr(), *logits.shape, smoothing,
                losses[piece].data_ptr(), threads_for(logits.numel()),
            )  # fmt: skip
            torch.mm(logits, weight, out=of_x[piece])
            if of_weight is not None:
                of_weight.addmm_(logits.T, x[piece])
            if of_bias is not None:
                of_bias += logits.sum(0)
        total, nll = losses[:, 0].sum(), losses[:, 1].sum()
        ctx.mark_non_differentiable(nll)
        ctx.save_for_backward(of_x, of_weight, of_bias)
        return total, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = ctx.saved_tensors
        if gradient != 1:  # it is 1 if the loss itself is differentiated, as in training
            found = [each if each is None else each * gradient for each in found]
        return *found, None, None
