"""RMS norm with its gradients in one pass over memory (norm.c)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.fast.native.kernels import kernel, threads_for
from regard.fast.native.residual import PASS


class TrainingRMSNorm(torch.autograd.Function):
    """x / sqrt(mean(x^2) + eps) * gain (Zhang and Sennrich 2019, equation 4)."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Float[Tensor, "*rows features"], gain: Float[Tensor, " features"], eps: float
    ) -> Float[Tensor, "*rows features"]:
        x, gain, features = x.contiguous(), gain.contiguous(), x.size(-1)
        out, scales = torch.empty_like(x), x.new_empty(x.numel() // features)
        kernel("rms_norm")(
            x.data_ptr(), len(scales), features, eps, gain.data_ptr(), scales.data_ptr(), out.data_ptr(),
            threads_for(PASS * x.numel()),
        )  # fmt: skip
        ctx.save_for_backward(x, scales, gain)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, scales, gain = ctx.saved_tensors
        gradient, of_x, threads = gradient.contiguous(), torch.empty_like(x), threads_for(PASS * x.numel())
        of_gain = x.new_zeros(threads, len(gain))
        kernel("rms_norm_backward")(
            gradient.data_ptr(), x.data_ptr(), scales.data_ptr(), len(scales), len(gain), gain.data_ptr(),
            of_x.data_ptr(), of_gain.data_ptr(), threads,
        )  # fmt: skip
        return of_x, of_gain.sum(0), None
