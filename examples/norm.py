"""A norm of one's own: dynamic tanh (Zhu et al. 2025, "Transformers without Normalization").

    python examples/norm.py

A recipe names it: `[model] norm = "dynamic_tanh"`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

import regard
from regard.models import TransformerConfig, register_norm


@register_norm("dynamic_tanh")
class DynamicTanh(nn.Module):
    """gain * tanh(alpha x) + bias, with one alpha for all features."""

    def __init__(self, config: TransformerConfig, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), 0.5))
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        return self.gain * torch.tanh(self.alpha * x) + self.bias


SMALL = [  # sequences of five symbols, learned in seconds
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")),
    "data.train.size=10000",
    "data.test.size=100",
    "batches.batch_tokens=700",
    "training.max_steps=300",
]

if __name__ == "__main__":
    run = regard.train(
        "reverse", out="runs/tanh", overrides=['model.norm="dynamic_tanh"', *SMALL], quiet=True
    )
    print(regard.translate("3 1 4 1 5", model=run.model))
