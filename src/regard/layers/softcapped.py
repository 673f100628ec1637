"""Soft-capping: large scores are bounded smoothly (Gemma 2, Gemma Team 2024, section 2)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def softcapped(scores: Float[Tensor, "*shape"], cap: float) -> Float[Tensor, "*shape"]:
    """cap * tanh(scores / cap), which lies between -cap and cap; scores far inside hardly change."""
    return cap * torch.tanh(scores / cap)


class SoftcappedLinear(nn.Linear):
    """A linear layer whose outputs are soft-capped at `cap`."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, cap: float) -> None:
        super().__init__(in_features, out_features, bias)
        self.cap = cap

    def forward(self, input: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        return softcapped(super().forward(input), self.cap)
