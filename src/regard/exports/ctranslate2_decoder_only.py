"""A decoder-only model of regard as a specification of CTranslate2."""

from typing import Any

from regard.exports.ctranslate2_layers import (
    fill_block,
    fill_input,
    fill_linear,
    fill_norm,
    stack_settings,
)
from regard.exports.ctranslate2_package import ctranslate2
from regard.exports.model_weights import ModelWeights
from regard.models.decoder_only import DecoderOnlyConfig


def decoder_only_spec(config: DecoderOnlyConfig, weights: ModelWeights) -> Any:
    """The specification of a model whose settings CTranslate2 has, with its weights."""
    specs = ctranslate2().specs
    spec = specs.TransformerDecoderModelSpec(
        specs.TransformerDecoderSpec(
            config.num_layers,
            with_encoder_attention=False,
            alibi=config.positions == "alibi",
            alibi_use_positive_positions=False,
            parallel_residual=config.parallel_residual is not None,
            shared_layer_norm=config.parallel_residual == "one_norm",
            **stack_settings(config),
        )
    )
    fill_input(
        spec.decoder.embeddings, spec.decoder, config, weights.below("input"), scaled=config.scaled_embedding
    )
    for number, layer in enumerate(spec.decoder.layer):
        fill_block(layer, config, weights.below("blocks", number))
    if config.norm_position != "post":
        fill_norm(spec.decoder.layer_norm, weights.below("norm"))
    fill_linear(spec.decoder.projection, weights.below("output"))
    return spec
