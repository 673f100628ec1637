"""Normalisation over the features of each token, which keeps activations of deep stacks in scale."""

from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_sizes, refuse_unknown

Norm = Literal["layer", "rms"]


class RMSNorm(nn.RMSNorm):
    """PyTorch's RMSNorm with the gain cast to the input's dtype: the fused kernel accepts no mixed dtypes."""

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


def norm(kind: Norm, d_model: int, *, bias: bool = True, eps: float | None = None) -> nn.Module:
    """A layer norm or an RMS norm.

    "layer": (x - mean) / sqrt(variance + eps) * gain + bias, the variance biased (Ba et al. 2016).
    "rms": x / sqrt(mean(x^2) + eps) * gain, without a bias (Zhang and Sennrich 2019).
    An `eps` of None is 1e-5 for "layer" and 1e-6 for "rms".
    """
    refuse_unknown("kind of norm", kind, get_args(Norm))
    refuse_other_sizes(d_model=d_model)
    if kind == "layer":
        return nn.LayerNorm(d_model, eps=1e-5 if eps is None else eps, bias=bias)
    return RMSNorm(d_model, eps=1e-6 if eps is None else eps)
