"""Norms of rows (norm.c)."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.fast.native.kernels import kernel
from regard.fast.native.plan import NORM, PlannedResult, Rows


class PackedNorm:
    """Layer norm; RMS norm if not `center` (the mean is not subtracted)."""

    def __init__(
        self,
        gain: Float[Tensor, " features"],
        bias: Float[Tensor, " features"] | None,
        eps: float,
        *,
        center: bool,
    ) -> None:
        self._held = gain, bias  # keeps the tensors alive whose addresses are below
        self._features = gain.numel()
        self._ends = center, eps, gain.data_ptr(), None if bias is None else bias.data_ptr()
        self._norm = kernel("norm")

    def __call__(self, x: Rows) -> Rows:
        """The norm of each row; in a plan, of each head of a row where the norm is as wide as a head."""
        return self._planned(x) if isinstance(x, PlannedResult) else self._computed(x)  # pyright: ignore[reportReturnType]

    def _planned(self, x: PlannedResult) -> PlannedResult:
        center, eps, gain, bias = self._ends
        heads = 0 if x.is_whole and x.features == self._features else x.features // self._features
        assert heads * self._features in (0, x.features)
        return x.plan.record(
            NORM, x, features=x.features, kept=self, weights=gain, bias=bias, number=eps, flag=center,
            heads=heads,
        )  # fmt: skip

    def _computed(self, x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows features"]:
        x = x.contiguous()
        out = torch.empty_like(x)
        self._norm(x.data_ptr(), x.size(0), self._features, *self._ends, out.data_ptr())
        return out
