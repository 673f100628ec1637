"""Random initialisation of weights, from one generator."""

import torch
from torch import Tensor, nn

from regard.layers.embedding import TokenEmbedding
from regard.layers.positions import BucketBias, LearnedPositions
from regard.layers.stacked import StackedLinear


@torch.no_grad()
def xavier(model: nn.Module, generator: torch.Generator) -> None:
    """Xavier for linear layers (each matrix of a stacked one), zero biases, embeddings from N(0, 1/d_model).

    Norms keep gain 1 and bias 0. A weight tied to an embedding is initialised as an embedding.
    """
    initialised: set[int] = set()
    for module in model.modules():
        if isinstance(module, TokenEmbedding | LearnedPositions | BucketBias):
            nn.init.normal_(module.weight, std=module.weight.size(1) ** -0.5, generator=generator)
            initialised.add(id(module.weight))
        elif isinstance(module, nn.Linear):
            if id(module.weight) not in initialised:
                for matrix in matrices(module):
                    nn.init.xavier_uniform_(matrix, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


@torch.no_grad()
def normal(model: nn.Module, generator: torch.Generator, std: float = 0.02) -> None:
    """N(0, std^2) for linear layers and embeddings, zero biases, as in BERT and GPT (Radford et al. 2019)."""
    for module in model.modules():
        if isinstance(module, TokenEmbedding | LearnedPositions | BucketBias | nn.Linear):
            nn.init.normal_(module.weight, std=std, generator=generator)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def matrices(linear: nn.Linear) -> tuple[Tensor, ...]:
    """The matrices of a linear layer: one, or those stacked in it."""
    return linear.weight.split(linear.widths) if isinstance(linear, StackedLinear) else (linear.weight,)
