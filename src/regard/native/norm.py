"""Norms of rows (norm.c)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.native.kernels import kernel
from regard.native.plan import NORM, Planned


class Norm:
    """Layer norm, or RMS norm where the mean is not taken off (`center`)."""

    def __init__(
        self,
        gain: Float[Tensor, " features"],
        bias: Float[Tensor, " features"] | None,
        eps: float,
        *,
        center: bool,
    ) -> None:
        self._held = gain, bias  # what the addresses below are of
        self._features = gain.numel()
        self._ends = center, eps, gain.data_ptr(), None if bias is None else bias.data_ptr()
        self._norm = kernel("norm")

    def __call__(self, x: Float[Tensor, "rows features"] | Planned) -> Any:
        """[rows, features]."""
        if isinstance(x, Planned):
            center, eps, gain, bias = self._ends
            return x.plan.note(
                NORM, x, features=self._features, kept=self, weights=gain, bias=bias, number=eps, flag=center
            )
        x = x.contiguous()
        out = torch.empty_like(x)
        self._norm(x.data_ptr(), x.size(0), self._features, *self._ends, out.data_ptr())
        return out
