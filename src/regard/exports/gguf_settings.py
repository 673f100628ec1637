"""The settings that llama.cpp has: those of its architectures llama, qwen3 and gpt2."""

from typing import Any, Literal

from regard.errors import UserError
from regard.exports.certificate import Quantization
from regard.exports.refusal import NotExpressible
from regard.exports.registered_kinds import refuse_registered_kinds
from regard.models.config import ModelConfig
from regard.models.decoder_only import DecoderOnlyConfig

ENGINE = "llama.cpp"
Architecture = Literal["llama", "qwen3", "gpt2"]
BLOCK = 32  # weights that share a scale in int8

# setting -> its only value, and why or what else is possible
ALWAYS = {
    "attention": ("softmax", "attention = 'softmax' is its only one"),
    "attention_scale": (None, "its scale is 1 / sqrt(d_head): multiply the weights of queries instead"),
    "local_rotary_base": (None, "train it with one base, without a window"),
    "layer_types": (None, "train it with layers of one type, without a window"),
    "attention_softcap": (None, "train it without"),
    "logit_softcap": (None, "train it without"),
    "parallel_residual": (None, "train it with one sub-layer after the other"),
    "output_bias": (False, "train it without"),
    "window": (None, "train it without a window: its architecture llama has none"),
    "scaled_embedding": (False, "multiply the embedding, and untie the output"),
    "norm_position": ("pre", "norm_position = 'pre' is possible"),
}
LLAMA = {
    "norm": ("rms", "with positions = 'rotary' norm = 'rms' is possible"),
    "activation": ("swiglu", "with positions = 'rotary' activation = 'swiglu' is possible"),
    "rotary_dim": (None, "all features of a head can be rotated"),
}
GPT2 = {
    "norm": ("layer", "with positions = 'learned' norm = 'layer' is possible"),
    "activation": ("gelu_tanh", "with positions = 'learned' activation = 'gelu_tanh' is possible"),
    "qk_norm": (False, "with positions = 'rotary' it is possible"),
    "position_offset": (0, "train it with position_offset = 0"),
    "num_kv_heads": (None, "with positions = 'rotary' it is possible"),
    "head_dim": (None, "with positions = 'rotary' it is possible"),
}


def known(config: ModelConfig) -> DecoderOnlyConfig:
    """The config, if llama.cpp computes what regard does.

    Raises:
        NotExpressible: it does not have a setting, or the kind is a registered one.
        UserError: it has no models of this kind.
    """
    refuse_registered_kinds(ENGINE, config)
    if not isinstance(config, DecoderOnlyConfig):
        raise UserError(
            f"{ENGINE} has no {config.kind} models here", "decoder_only models can be exported to it"
        )
    if config.positions not in ("rotary", "learned"):
        raise NotExpressible(ENGINE, "positions", config.positions, "'rotary' or 'learned' is possible")
    own: dict[str, tuple[Any, str]] = ALWAYS | (LLAMA if config.positions == "rotary" else GPT2)
    spelled = {  # the same value, spelled out
        "num_kv_heads": config.num_heads,
        "head_dim": config.d_model / config.num_heads,
        "rotary_dim": config.d_head,
        "attention_scale": config.d_head**-0.5,
    }
    for name, (value, nearest) in own.items():
        if getattr(config, name) not in (value, spelled.get(name, value)):
            raise NotExpressible(ENGINE, name, getattr(config, name), nearest)
    if config.qk_norm == "all_heads":
        raise NotExpressible(ENGINE, "qk_norm", "all_heads", "it normalises each head: qk_norm = true")
    scaling = config.rotary_scaling
    if config.positions == "rotary" and scaling is not None:
        if scaling.amplitude != 1.0 or scaling.limit is not None:
            raise NotExpressible(
                ENGINE,
                "rotary_scaling",
                config.to_dict()["rotary_scaling"],
                "kinds linear and llama3 are possible",
            )
        if config.qk_norm:
            raise NotExpressible(ENGINE, "qk_norm", True, "with rotary_scaling it is False")
    if config.qk_norm and config.attention_biases == "all":
        raise NotExpressible(ENGINE, "attention_bias", "all", "with qk_norm it is 'inputs' or 'none'")
    if config.qk_norm and config.has_feed_forward_bias:
        raise NotExpressible(ENGINE, "feed_forward_bias", True, "with qk_norm it is False")
    return config


def architecture(config: DecoderOnlyConfig) -> Architecture:
    """The architecture of llama.cpp that has this model's layers."""
    if config.positions == "learned":
        return "gpt2"
    return "qwen3" if config.qk_norm else "llama"


def most_positions(config: DecoderOnlyConfig) -> int | None:
    """The length of the longest sequence; None without a limit."""
    return config.max_positions if config.positions == "learned" else None


def refuse_other_widths(config: DecoderOnlyConfig, quantization: Quantization) -> None:
    """Raise NotExpressible for a width of which int8 does not have whole blocks."""
    if quantization == "int8":
        for name, width in (("d_model", config.d_model), ("d_ff", config.d_ff), ("head_dim", config.d_head)):
            if width % BLOCK and not (name == "head_dim" and config.num_heads * width % BLOCK == 0):
                raise NotExpressible(
                    ENGINE, name, width, f"int8 has blocks of {BLOCK}: take another quantization"
                )
