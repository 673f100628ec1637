"""A positional encoding of one's own: random Fourier features, added to the embeddings.

    python examples/positions.py

A recipe names it: `[model] positions = "fourier"`.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

import regard
from regard.models import TransformerConfig, register_positions


@register_positions("fourier", "input")
class FourierPositions(nn.Module):
    """cos(w t + b) for fixed random frequencies w between 1/10000 and 1, and random phases b."""

    frequencies: Tensor
    phases: Tensor

    def __init__(self, config: TransformerConfig, bidirectional: bool) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)  # the same table in every process
        frequencies = 10000 ** -torch.rand(config.d_model, generator=random)
        phases = 2 * torch.pi * torch.rand(config.d_model, generator=random)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.register_buffer("phases", phases, persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "{length} d_model"]:
        return self.at(torch.arange(start, start + length, device=self.phases.device))

    def at(self, positions: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape d_model"]:
        return (positions[..., None] * self.frequencies + self.phases).cos()


SMALL = [  # sequences of five symbols, learned in seconds
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")),
    "data.train.size=10000",
    "data.test.size=100",
    "batches.batch_tokens=700",
    "training.max_steps=300",
]

if __name__ == "__main__":
    run = regard.train(
        "reverse", out="runs/fourier", overrides=['model.positions="fourier"', *SMALL], quiet=True
    )
    print(regard.translate("3 1 4 1 5", model=run.model))  # the folder names the encoding, too
