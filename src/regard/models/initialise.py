"""Fresh weights: how each kind of matrix is drawn, from one generator and nothing else's."""

import torch
from torch import Tensor, nn

from regard.layers.embedding import TokenEmbedding
from regard.layers.positions import BucketBias, LearnedPositions
from regard.layers.stacked import StackedLinear


@torch.no_grad()
def xavier(model: nn.Module, generator: torch.Generator) -> None:
    """Xavier for each matrix of the paper, stacked or not; zero biases; embeddings from N(0, 1/d_model).

    A norm is left as it is made, with gain 1 and bias 0. What is tied to an embedding is drawn as that.
    """
    drawn: set[int] = set()
    for module in model.modules():
        if isinstance(module, TokenEmbedding | LearnedPositions | BucketBias):
            nn.init.normal_(module.weight, std=module.weight.size(1) ** -0.5, generator=generator)
            drawn.add(id(module.weight))
        elif isinstance(module, nn.Linear):
            if id(module.weight) not in drawn:
                for matrix in matrices(module):
                    nn.init.xavier_uniform_(matrix, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


@torch.no_grad()
def normal(model: nn.Module, generator: torch.Generator, std: float = 0.02) -> None:
    """N(0, std^2) for each matrix and embedding, zero biases: BERT's and GPT's way (Radford et al. 2019)."""
    for module in model.modules():
        if isinstance(module, TokenEmbedding | LearnedPositions | BucketBias | nn.Linear):
            nn.init.normal_(module.weight, std=std, generator=generator)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def matrices(linear: nn.Linear) -> tuple[Tensor, ...]:
    """The matrices that a linear layer holds: one, or those stacked in it."""
    return linear.weight.split(linear.widths) if isinstance(linear, StackedLinear) else (linear.weight,)
