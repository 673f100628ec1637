"""The settings that CTranslate2 does not have, each with the nearest.

All other settings of the two kinds of models are equal; tests/exports/test_ctranslate2_settings.py compares
each.
"""

from regard.errors import UserError
from regard.exports.refusal import NotExpressible
from regard.exports.registered_kinds import refuse_registered_kinds
from regard.models.config import ModelConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.registered import registered_parts

ENGINE = "CTranslate2"
OWN_POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "t5", "none")


def refuse_other_settings(config: ModelConfig) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """The config, if CTranslate2 computes what regard does.

    Raises:
        NotExpressible: it does not have a setting, or the kind is a registered one.
        UserError: it has no models of this kind.
    """
    refuse_registered_kinds(ENGINE, config)
    if not isinstance(config, EncoderDecoderConfig | DecoderOnlyConfig):
        raise UserError(
            f"{ENGINE} has no {config.kind} models here",
            "encoder_decoder and decoder_only models can be exported",
        )
    if config.attention != "softmax":
        raise NotExpressible(ENGINE, "attention", config.attention, "attention = 'softmax' is its only one")
    if config.positions not in OWN_POSITIONS:
        raise NotExpressible(ENGINE, "positions", config.positions, "positions = 'rotary' is possible")
    for name, value in registered_parts(config).items():
        raise NotExpressible(ENGINE, name, value, "it has no registered parts")
    if config.rotary_scaling is not None:
        raise NotExpressible(
            ENGINE,
            "rotary_scaling",
            config.to_dict()["rotary_scaling"],
            "train it without; it has other scalings",
        )
    if config.norm_position == "reordered":
        raise NotExpressible(
            ENGINE, "norm_position", "reordered", "its blocks are 'post', 'pre' or 'sandwich'"
        )
    if config.qk_norm == "all_heads":
        raise NotExpressible(ENGINE, "qk_norm", "all_heads", "it normalises each head: qk_norm = true")
    if isinstance(config, DecoderOnlyConfig):
        _refuse_other_blocks(config)
    if isinstance(config, EncoderDecoderConfig) and config.positions == "alibi":
        raise NotExpressible(
            ENGINE,
            "positions",
            "alibi",
            "its encoders have no ALiBi; positions = 't5' or 'rotary' is possible",
        )
    if isinstance(config, EncoderDecoderConfig) and not config.source_end:
        raise NotExpressible(ENGINE, "source_end", False, "the export --to onnx has it")
    if isinstance(config, DecoderOnlyConfig) and config.positions == "t5":  # wrong where a prompt is read
        raise NotExpressible(
            ENGINE, "positions", "t5", "for a decoder-only model 'alibi' or 'rotary' is possible"
        )
    if isinstance(config, DecoderOnlyConfig) and config.window is not None:
        raise NotExpressible(
            ENGINE,
            "window",
            config.window,
            "train it without a window; its sliding window differs while a prompt is read",
        )
    return config


def _refuse_other_blocks(config: DecoderOnlyConfig) -> None:
    """Raise NotExpressible for layers of several types and for caps."""
    for name, hint in (
        ("layer_types", "train it with layers of one type, without a window"),
        ("local_rotary_base", "train it with one base, without a window"),
        ("attention_softcap", "train it without"),
        ("logit_softcap", "train it without"),
    ):
        if (value := getattr(config, name)) is not None:
            raise NotExpressible(ENGINE, name, value, hint)
