"""Normalisation over the features of each token, which keeps the scale of a deep stack in hand."""

from typing import Literal

from torch import nn

Norm = Literal["layer", "rms"]


def norm(kind: Norm, d_model: int) -> nn.Module:
    """ "layer": (x - mean) / sqrt(variance + 1e-5) * gain + bias, the variance biased (Ba et al. 2016).
    "rms": x / sqrt(mean(x^2) + 1e-6) * gain (Zhang and Sennrich 2019).
    """
    return nn.LayerNorm(d_model, eps=1e-5) if kind == "layer" else nn.RMSNorm(d_model, eps=1e-6)
