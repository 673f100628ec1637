"""The layers of CTranslate2's specifications, and how regard's weights fill them.

CTranslate2 stores the projections of queries, keys and values in one matrix, as regard does. It has an
epsilon for all norms, decides by the presence of `beta` between layer norm and RMS norm, and has sinusoids of
its own where a stack has no position vectors; so vectors are always written, zeros for none.
"""

from typing import Any

import numpy as np
import torch

from regard.exports.ctranslate2_package import ctranslate2
from regard.exports.model_weights import Array, ModelWeights
from regard.layers.positions import sinusoids
from regard.models.config import TransformerConfig
from regard.models.decoder_only import DecoderOnlyConfig

POSITIONS = 2048  # sinusoidal vectors that are written; regard cuts longer sources, with a warning
ADDED = ("sinusoidal", "learned", "none")  # in place of the sinusoids that CTranslate2 would add
NORMS = (  # part of a block, and the specification's names: of one norm, of the norms before and after it
    ("self_attention", "self_attention", "input_layer_norm", "post_attention_layer_norm"),
    (
        "cross_attention",
        "attention",
        "external_pre_encoder_attention_layer_norm",
        "external_post_encoder_attention_layer_norm",
    ),
    ("feed_forward", "ffn", "pre_feedforward_layer_norm", "post_feedforward_layer_norm"),
)
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}


def stack_settings(config: TransformerConfig) -> dict[str, Any]:
    """The arguments that encoder and decoder specifications share."""
    known = ctranslate2().specs.common_spec.Activation
    activations = {
        "relu": known.RELU, "gelu": known.GELU, "gelu_tanh": known.GELUTanh, "silu": known.SWISH,
        "quick_gelu": known.GELUSigmoid,
    }  # fmt: skip
    return {
        "num_heads": config.num_heads,
        "pre_norm": config.norm_position != "post",
        "activation": activations[GATED.get(config.activation, config.activation)],
        "ffn_glu": config.activation in GATED,
        "rms_norm": config.norm == "rms",
        "num_heads_kv": config.num_kv_heads,
        "head_dim": config.d_head,
        "rotary_dim": (config.rotary_dim or config.d_head) if config.positions == "rotary" else None,
        "rotary_interleave": False,
        "rotary_base": config.rotary_base,
        "qk_norm": config.qk_norm,
        "relative_attention_bias": config.positions == "t5",
        "pre_post_layer_norm": config.norm_position == "sandwich",
    }


def most_positions(config: TransformerConfig) -> int | None:
    """The length of the longest sequence that an export reads; None without a limit."""
    if config.positions == "learned":
        return config.max_positions
    return POSITIONS if config.positions in ADDED else None


def norm_epsilon(config: TransformerConfig) -> float:
    """The epsilon of all norms, as in `layers/norm.py`."""
    return config.norm_eps or (1e-5 if config.norm == "layer" else 1e-6)


def fill_input(
    embeddings: Any, stack: Any, config: TransformerConfig, weights: ModelWeights, *, scaled: bool
) -> None:
    """Embeddings, the vectors of positions, and the norm of their sum if there is one."""
    embeddings.weight = weights.array("embedding.weight")
    stack.scale_embeddings = scaled
    if config.positions in ADDED:
        stack.position_encodings.encodings = _positions(config, weights)
    if hasattr(stack, "layernorm_embedding"):
        fill_norm(stack.layernorm_embedding, weights.below("norm"))


def fill_block(layer: Any, config: TransformerConfig, weights: ModelWeights) -> None:
    """A block: its attentions, its feed-forward network, and their norms."""
    _fill_self_attention(layer.self_attention, config, weights.below("self_attention"))
    _fill_feed_forward(layer.ffn, weights.below("feed_forward"))
    has_memory = hasattr(layer, "attention")
    if has_memory:
        _fill_cross_attention(layer.attention, config, weights.below("cross_attention"))
    if isinstance(config, DecoderOnlyConfig) and config.parallel_residual is not None:
        _fill_parallel_norms(layer, config, weights)
        return
    for part, whole, before, after in NORMS:
        residual = weights.below(f"around_{part}")
        if part == "cross_attention" and not has_memory:
            continue
        if config.norm_position == "sandwich":
            fill_norm(getattr(layer, before), residual.below("norm_before"))
            fill_norm(getattr(layer, after), residual.below("norm_after"))
        else:
            fill_norm(getattr(layer, whole).layer_norm, residual.below("norm"))


def _fill_parallel_norms(layer: Any, config: DecoderOnlyConfig, weights: ModelWeights) -> None:
    """The norms of a block with parallel residuals: one for both parts, or one for each."""
    places = {"self_attention": "shared_layer_norm", "feed_forward": "shared_layer_norm"}
    if config.parallel_residual == "two_norms":
        places = {"self_attention": "input_layer_norm", "feed_forward": "post_attention_layer_norm"}
    for part, name in places.items():
        spec = ctranslate2().specs.common_spec.LayerNormSpec(rms_norm=config.norm == "rms")
        fill_norm(spec, weights.below(f"around_{part}", "norm"))
        setattr(layer, name, spec)


def fill_buckets(spec: Any, config: TransformerConfig, weights: ModelWeights) -> None:
    """T5's relative positions of a self-attention; all blocks of a stack have the same."""
    spec.relative_attention_bias = weights.array("weight")
    spec.relative_attention_max_distance = np.int32(config.position_distance)


def fill_norm(spec: Any, weights: ModelWeights) -> None:
    """A norm; a layer norm without a bias gets one of zeros."""
    spec.gamma = weights.array("weight")
    if hasattr(spec, "beta"):
        spec.beta = weights.array("bias") if "bias" in weights else np.zeros_like(spec.gamma)


def fill_linear(spec: Any, weights: ModelWeights) -> None:
    """A linear layer, with its bias if it has one."""
    spec.weight = weights.array("weight")
    if "bias" in weights:
        spec.bias = weights.array("bias")


def _fill_self_attention(spec: Any, config: TransformerConfig, weights: ModelWeights) -> None:
    """Self-attention."""
    fill_linear(spec.linear[0], weights.below("query_key_value"))
    fill_linear(spec.linear[1], weights.below("output"))
    _set_scale(spec, config)
    if config.qk_norm:
        own = ctranslate2().specs.common_spec.LayerNormSpec
        spec.q_norm, spec.k_norm = (own(rms_norm=config.norm == "rms") for _ in range(2))
        fill_norm(spec.q_norm, weights.below("query_norm"))
        fill_norm(spec.k_norm, weights.below("key_norm"))


def _fill_cross_attention(spec: Any, config: TransformerConfig, weights: ModelWeights) -> None:
    """Cross-attention. Shared key-value heads are repeated: only self-attention shares them there."""
    fill_linear(spec.linear[0], weights.below("query"))
    parts = [_repeated(config, weights.below(name)) for name in ("key", "value")]
    spec.linear[1].weight = np.concatenate([weight for weight, _ in parts])
    if "bias" in weights.below("key"):
        spec.linear[1].bias = np.concatenate([bias for _, bias in parts if bias is not None])
    fill_linear(spec.linear[2], weights.below("output"))
    _set_scale(spec, config)
    for name in ("num_heads_kv", "q_norm", "k_norm"):  # of self-attention only
        if hasattr(spec, name):
            delattr(spec, name)


def _fill_feed_forward(spec: Any, weights: ModelWeights) -> None:
    """A feed-forward network, gated or not."""
    if hasattr(spec, "linear_0_noact"):
        for part in ("weight", "bias") if "gate_inner.bias" in weights else ("weight",):
            gate, inner = torch.chunk(weights.tensor(f"gate_inner.{part}"), 2)
            setattr(spec.linear_0, part, gate.numpy().copy())
            setattr(spec.linear_0_noact, part, inner.numpy().copy())
    else:
        fill_linear(spec.linear_0, weights.below("inner"))
    fill_linear(spec.linear_1, weights.below("outer"))


def _set_scale(spec: Any, config: TransformerConfig) -> None:
    if config.attention_scale is not None:
        spec.queries_scale = np.float32(config.attention_scale)


def _repeated(config: TransformerConfig, weights: ModelWeights) -> tuple[Array, Array | None]:
    """The projection of keys or values with a head for each head of queries: its weight and bias."""
    times = config.num_heads // (config.num_kv_heads or config.num_heads)
    weight = weights.tensor("weight").unflatten(0, (-1, config.d_head)).repeat_interleave(times, 0)
    bias = None
    if "bias" in weights:
        bias = weights.tensor("bias").unflatten(0, (-1, config.d_head)).repeat_interleave(times, 0)
    return weight.flatten(0, 1).numpy(), None if bias is None else bias.flatten().numpy()


def _positions(config: TransformerConfig, weights: ModelWeights) -> Array:
    """The vectors that are added to embeddings; zeros for no positions."""
    if config.positions == "learned":
        return weights.array("positions.weight")[config.position_offset :].copy()
    if config.positions == "sinusoidal":
        offset = config.position_offset if config.position_layout == "fairseq" else 0
        return sinusoids(offset, POSITIONS, config.d_model, config.position_layout).numpy()
    return np.zeros((POSITIONS, config.d_model), np.float32)
