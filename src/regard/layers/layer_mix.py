"""A weighted mean of the states of all layers (Peters et al. 2018, equation 1), also with sparsemax."""

from collections.abc import Iterable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Weighting = Literal["softmax", "sparsemax"]


class LayerMix(nn.Module):
    """scale * sum_k share_k x_k, where the shares are the softmax or the sparsemax of learned weights.

    If `normalised`, each x_k first gets mean 0 and variance 1 over all numbers of a text, padding aside.
    """

    EPS = 1e-12  # added to the variance

    def __init__(self, num_states: int, weighting: Weighting, *, normalised: bool) -> None:
        super().__init__()
        self.weighting: Weighting = weighting
        self.normalised = normalised
        self.weights = nn.Parameter(torch.zeros(num_states))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(
        self, states: Iterable[Float[Tensor, "batch len d_model"]], is_real: Bool[Tensor, "batch len"]
    ) -> Float[Tensor, "batch len d_model"]:
        """The mixed states; `states` has those of each layer, and only two are in memory at once."""
        shares = self.weights.softmax(dim=0) if self.weighting == "softmax" else sparsemax(self.weights)
        parts = (
            share * (self._normalised(x, is_real) if self.normalised else x)
            for share, x in zip(shares, states, strict=True)
        )
        return self.scale * sum(parts)

    def _normalised(
        self, x: Float[Tensor, "batch len d_model"], is_real: Bool[Tensor, "batch len"]
    ) -> Float[Tensor, "batch len d_model"]:
        real = is_real[:, :, None]
        count = is_real.sum(dim=1)[:, None, None] * x.size(-1)
        mean = x.where(real, 0.0).sum(dim=(1, 2), keepdim=True) / count
        deviations = x - mean
        variance = deviations.where(real, 0.0).square().sum(dim=(1, 2), keepdim=True) / count
        return deviations / torch.sqrt(variance + self.EPS)


def sparsemax(weights: Float[Tensor, " size"]) -> Float[Tensor, " size"]:
    """The nearest probabilities to `weights`, often 0 for small ones (Martins and Astudillo 2016, alg. 1)."""
    ordered = weights.sort(descending=True).values
    totals = ordered.cumsum(dim=0)
    counts = torch.arange(1, len(weights) + 1, device=weights.device)
    size = (1 + counts * ordered > totals).sum(dim=0, keepdim=True)  # of the support
    threshold = (totals.gather(0, size - 1) - 1) / size
    return (weights - threshold).clamp(min=0)
