"""An encoder-decoder of regard as a specification of CTranslate2."""

from typing import Any

import numpy as np

from regard.exports.ctranslate2_layers import (
    fill_block,
    fill_buckets,
    fill_input,
    fill_linear,
    fill_norm,
    stack_settings,
)
from regard.exports.ctranslate2_package import ctranslate2
from regard.exports.model_weights import ModelWeights
from regard.models.encoder_decoder import EncoderDecoderConfig


def encoder_decoder_spec(config: EncoderDecoderConfig, weights: ModelWeights) -> Any:
    """The specification of a model whose settings CTranslate2 has, with its weights."""
    specs = ctranslate2().specs
    shared = {**stack_settings(config), "layernorm_embedding": config.embedding_norm}
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(config.num_encoder_layers, **shared),
        specs.TransformerDecoderSpec(
            config.num_decoder_layers,
            external_pre_post_encoder_layers=config.norm_position == "sandwich",
            **shared,
        ),
    )
    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        _fill_stack(stack, config, weights.below(name))
    if config.scaled_output:
        spec.decoder.scale_outputs = np.float32(config.d_model**-0.5)
    fill_linear(spec.decoder.projection, weights.below("output"))
    return spec


def _fill_stack(stack: Any, config: EncoderDecoderConfig, weights: ModelWeights) -> None:
    embeddings = stack.embeddings[0] if isinstance(stack.embeddings, list) else stack.embeddings
    fill_input(embeddings, stack, config, weights.below("input"), scaled=config.scaled_embedding)
    for number, layer in enumerate(stack.layer):
        fill_block(layer, config, weights.below("blocks", number))
        if config.positions == "t5":
            fill_buckets(layer.self_attention, config, weights.below("position_bias"))
    if config.norm_position != "post":
        fill_norm(stack.layer_norm, weights.below("norm"))
