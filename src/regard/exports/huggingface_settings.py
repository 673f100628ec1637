"""The models that transformers can run: those of a published family, and others by the exported code."""

from regard.errors import UserError
from regard.exports.certificate import Quantization
from regard.exports.refusal import NotExpressible
from regard.exports.registered_kinds import refuse_registered_kinds
from regard.models.build import base_kind
from regard.models.config import ModelConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.registered import registered_parts

ENGINE = "transformers"
IN_FAMILIES = {  # settings that published families have, and the exported code lacks: the values it has
    "local_rotary_base": None,
    "layer_types": None,
    "attention_softcap": None,
    "logit_softcap": None,
    "parallel_residual": None,
}


def generating(config: ModelConfig) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """The config of a model that generates, for a published family or the exported code.

    Raises:
        NotExpressible: it has a registered part.
        UserError: a model of this kind generates nothing.
    """
    if not isinstance(config, EncoderDecoderConfig | DecoderOnlyConfig) or base_kind(config) is None:
        raise UserError(
            f"{config.kind} models generate nothing that a certificate could compare",
            "regard convert MODEL --to hf writes it, if a family of transformers has models of its shape",
        )
    for name, value in registered_parts(config).items():
        raise NotExpressible(ENGINE, name, value, "a registered part is not in the exported code")
    return config


def known(config: ModelConfig) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """The config of a model that the exported code can compute.

    Raises:
        NotExpressible: the code does not have a setting, or the kind is a registered one.
        UserError: a model of this kind generates nothing.
    """
    refuse_registered_kinds(ENGINE, config)
    config = generating(config)
    own = {**IN_FAMILIES, "output_bias": config.output_bias if config.kind == "encoder_decoder" else False}
    for name, usual in own.items():
        if (value := getattr(config, name, usual)) != usual:
            raise NotExpressible(
                ENGINE, name, value, "a published family has it, but not with all of these settings"
            )
    if config.norm_position == "reordered":
        raise NotExpressible(
            ENGINE, "norm_position", "reordered", "'post', 'pre' and 'sandwich' are possible"
        )
    if config.qk_norm == "all_heads":
        raise NotExpressible(ENGINE, "qk_norm", "all_heads", "qk_norm = true normalises each head")
    return config


def code_has(config: ModelConfig) -> bool:
    """True if the exported code can compute a model of this config."""
    try:
        known(config)
    except NotExpressible:
        return False
    return True


def refuse_other_quantization(quantization: Quantization) -> None:
    """Raise NotExpressible for int8, which transformers does not read from a plain safetensors file."""
    if quantization == "int8":
        raise NotExpressible(ENGINE, "quantization", quantization, "float16 and bfloat16 are possible")


def most_positions(config: EncoderDecoderConfig | DecoderOnlyConfig) -> int | None:
    """The length of the longest sequence; None without a limit."""
    return config.position_limit
