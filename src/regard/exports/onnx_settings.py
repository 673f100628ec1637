"""The models that are exported to ONNX with a loop: all settings of the two kinds that generate."""

from regard.errors import UserError
from regard.exports.certificate import Quantization
from regard.exports.refusal import NotExpressible
from regard.models.build import base_kind
from regard.models.config import ModelConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig

ENGINE = "ONNX"


def known(config: ModelConfig) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """The config, if models of its kind can be exported.

    Raises:
        UserError: they cannot.
    """
    if not isinstance(config, EncoderDecoderConfig | DecoderOnlyConfig) or base_kind(config) is None:
        raise UserError(
            f"{config.kind} models cannot be exported to {ENGINE}",
            "encoder_decoder, decoder_only and encoder_only models can, and those that inherit from them",
        )
    return config


def most_positions(config: EncoderDecoderConfig | DecoderOnlyConfig) -> int | None:
    """The length of the longest sequence that an export reads; None without a limit."""
    return config.position_limit


def refuse_other_quantization(quantization: Quantization) -> None:
    """Raise NotExpressible for weights in a form that there is not."""
    if quantization not in ("float32", "float16", "int8"):
        raise NotExpressible(
            ENGINE, "quantization", quantization, "float16 stores weights in as many bits; int8 in fewer"
        )
