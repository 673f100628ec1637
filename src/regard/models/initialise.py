"""Random initialisation of weights, from one generator.

A registered part (`registered.py`) initialises itself: `model_modules` leaves out the layers that it makes.
"""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from regard.layers.attention import SelfAttention
from regard.layers.convolution import InputConvolution
from regard.layers.embedding import TokenEmbedding
from regard.layers.positions import BucketBias, LearnedPositions
from regard.layers.stacked import StackedLinear

STD = 0.02  # of BERT and GPT
# The layers of a registered attention that its base class has made.
OF_ATTENTION = ("query", "key", "value", "query_key_value", "output")


@torch.no_grad()
def xavier(model: nn.Module, generator: torch.Generator) -> None:
    """Xavier for linear layers (each matrix of a stacked one), zero biases, embeddings from N(0, 1/d_model).

    Norms keep gain 1 and bias 0. A weight tied to an embedding is initialised as an embedding.
    """
    initialised: set[int] = set()
    for module in model_modules(model):
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
def normal(model: nn.Module, generator: torch.Generator) -> None:
    """N(0, STD^2) for linear layers and embeddings, zero biases, as in BERT and GPT (Radford et al. 2019).

    The weights of a convolution of `k` positions are uniform in [-1/sqrt(k), 1/sqrt(k)], PyTorch's default.
    """
    for module in model_modules(model):
        if isinstance(module, InputConvolution):
            convolution = module.depthwise
            bound = convolution.kernel_size[0] ** -0.5
            nn.init.uniform_(convolution.weight, -bound, bound, generator=generator)
            nn.init.zeros_(cast(Tensor, convolution.bias))
        if isinstance(module, TokenEmbedding | LearnedPositions | BucketBias | nn.Linear):
            nn.init.normal_(module.weight, std=STD, generator=generator)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def model_modules(model: nn.Module) -> Iterator[nn.Module]:
    """The modules of a model in the order of `modules()`, without those that registered parts initialise."""
    own: set[int] = set()
    for part in model.modules():
        if getattr(part, "initialises_itself", False):
            inherited = OF_ATTENTION if isinstance(part, SelfAttention) else ()
            added = [layer for name, layer in part.named_children() if name not in inherited]
            own.update(id(inner) for layer in added for inner in layer.modules())
            own.add(id(part))
    yield from (module for module in model.modules() if id(module) not in own)


def matrices(linear: nn.Linear) -> tuple[Tensor, ...]:
    """The matrices of a linear layer: one, or those stacked in it."""
    return linear.weight.split(linear.widths) if isinstance(linear, StackedLinear) else (linear.weight,)
