"""ModelConfig -> a model with fresh weights."""

import torch
from torch import Tensor, nn

from regard.layers.embedding import TokenEmbedding
from regard.layers.positions import BucketBias, LearnedPositions
from regard.layers.stacked import StackedLinear
from regard.models.config import Kind, ModelConfig
from regard.models.encoder_decoder import EncoderDecoder

MODELS: dict[Kind, type[EncoderDecoder]] = {"encoder_decoder": EncoderDecoder}


def build(config: ModelConfig, seed: int | None = None) -> EncoderDecoder:
    """The model of `config`, its weights drawn with `seed` (None: with a new one) and nothing else's."""
    generator = torch.Generator()
    generator.manual_seed(seed) if seed is not None else generator.seed()
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # PyTorch's layers draw on their own
        model = MODELS[config.kind](config)
    initialise(model, generator)
    return model


@torch.no_grad()
def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Xavier for each matrix of the paper, stacked or not; zero biases; embeddings from N(0, 1/d_model).

    A norm is left as it is made, with gain 1 and bias 0.
    """
    drawn: set[int] = set()  # what is tied is drawn once
    for module in model.modules():
        if isinstance(module, TokenEmbedding | LearnedPositions | BucketBias):
            nn.init.normal_(module.weight, std=module.weight.size(1) ** -0.5, generator=generator)
            drawn.add(id(module.weight))
        elif isinstance(module, nn.Linear) and id(module.weight) not in drawn:
            for matrix in _matrices(module):
                nn.init.xavier_uniform_(matrix, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _matrices(linear: nn.Linear) -> tuple[Tensor, ...]:
    return linear.weight.split(linear.widths) if isinstance(linear, StackedLinear) else (linear.weight,)


def count_parameters(model: nn.Module) -> int:
    """How many numbers are learned; what is tied counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
