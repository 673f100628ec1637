"""A config -> a model with fresh weights; and the list of all models."""

import torch

from regard.errors import ConfigError, did_you_mean
from regard.models.config import ModelConfig
from regard.models.conformer import Conformer, ConformerConfig
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnly, EncoderOnlyConfig
from regard.models.graph import (
    GraphAttentionNetwork,
    GraphConfig,
    GraphTransformer,
    GraphTransformerConfig,
)
from regard.models.model import Model
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.vision import VisionConfig, VisionTransformer

# kind -> its settings and its class
MODELS: dict[str, tuple[type[ModelConfig], type[Model]]] = {
    config.kind: (config, model)
    for config, model in (
        (EncoderDecoderConfig, EncoderDecoder),
        (EncoderOnlyConfig, EncoderOnly),
        (DecoderOnlyConfig, DecoderOnly),
        (RecurrentConfig, Recurrent),
        (VisionConfig, VisionTransformer),
        (ConformerConfig, Conformer),
        (GraphConfig, GraphAttentionNetwork),
        (GraphTransformerConfig, GraphTransformer),
    )
}


def config_class(kind: str) -> type[ModelConfig]:
    """The settings of the models of this kind."""
    if kind not in MODELS:
        raise ConfigError(f"no kind of model {kind!r}", did_you_mean(kind, MODELS))
    return MODELS[kind][0]


def build(config: ModelConfig, seed: int | None = None) -> Model:
    """The model of `config`, its weights drawn with `seed` (None: with a new one) and nothing else's."""
    generator = torch.Generator()
    generator.manual_seed(seed) if seed is not None else generator.seed()
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # PyTorch's layers draw on their own
        model = MODELS[config.kind][1](config)
    model.initialise(generator)
    return model


def count_parameters(model: Model) -> int:
    """How many numbers are learned; what is tied counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
