"""eole (the successor of OpenNMT-py): `model.00.safetensors` with `config.json` and `vocab.json`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import FolderError
from regard.layers.feedforward import GATES
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.huggingface_files import read_table
from regard.weights.names import Entry, linear, same
from regard.weights.tensors import read_tensors
from regard.weights.toolkits.decoding import search_settings
from regard.weights.toolkits.eole_vocabulary import read_tokenizers
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import Toolkit, ToolkitCheckpoint
from regard.weights.toolkits.torch_names import (
    EmbeddingNames,
    attention,
    cross_attention,
    drop_sinusoids,
    refuse_unequal_sides,
)

CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocab.json", "model.*.safetensors"
SOURCE = "src_emb.embeddings.weight"
EMBEDDINGS = EmbeddingNames(
    source=SOURCE, target="tgt_emb.embeddings.weight", output="generator.weight", shared=SOURCE
)
SIDES = {"encoder": "src", "decoder": "tgt"}
ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_tanh", "silu": "silu", "gated-silu": "swiglu",
    "gated-gelu": "geglu", "gated-gelu-tanh": "geglu_tanh", "fused-gated-silu": "swiglu",
    "fused-gated-gelu": "geglu", "fused-gated-gelu-tanh": "geglu_tanh",
}  # fmt: skip
NORMS = {"standard": "layer", "standardFP32": "layer", "rms": "rms"}
POSITIONS = {
    "SinusoidalInterleaved": ("sinusoidal", "interleaved"),
    "SinusoidalConcat": ("sinusoidal", "fairseq"),
    "Learned": ("learned", "interleaved"),
    "Rotary": ("rotary", "interleaved"),
}
# Settings of the model that the encoder and the decoder have, too: theirs replace the model's.
OF_BOTH_STACKS = (
    "heads", "heads_kv", "head_dim", "hidden_size", "layers", "transformer_ff", "mlp_activation_fn",
    "layer_norm", "norm_eps", "add_qkvbias", "add_key_bias", "add_final_linear_bias", "add_ffnbias",
    "attn_scaling", "rope_config", "sliding_window", "relative_positions_buckets", "parallel_residual",
    "ffn_layernorm", "query_norm", "key_norm", "value_norm", "qk_norm_post_rope", "num_experts", "q_gating",
    "interpolate_mode", "position_encoding_type", "n_positions", "max_position_embeddings",
    "shared_layer_norm", "moe_transformer_ff", "num_shared_experts", "shared_expert_gate",
    "first_k_dense_replace", "num_experts_per_tok", "moe_softmax_after", "moe_renormalize", "dim_per_head",
)  # fmt: skip
# Settings that must be false, 0 or null: regard does not have what they switch on.
NEVER_TRUE = (
    "parallel_residual", "ffn_layernorm", "query_norm", "key_norm", "value_norm", "qk_norm_post_rope",
    "q_gating", "coverage_attn", "mtp_emb_norm",
)  # fmt: skip
ZERO = ("sliding_window", "relative_positions_buckets", "num_experts", "num_mtp_heads")
NEVER_SET = ("interpolate_mode", "layer_types", "global_head_dim", "global_heads_kv")
# Settings that change nothing in the models that are read, or only their training.
UNUSED_IN_STACKS = (
    "position_encoding_type", "n_positions", "max_position_embeddings", "shared_layer_norm", "dim_per_head",
    "moe_transformer_ff", "num_shared_experts", "shared_expert_gate", "first_k_dense_replace",
    "num_experts_per_tok", "moe_softmax_after", "moe_renormalize", "with_cross_attn", "lambda_coverage",
    "global_attention", "global_attention_function", "aan_useffn", "alignment_layer", "alignment_heads",
    "full_context_alignment", "lambda_align", "linear_conv_kernel_dim", "linear_key_head_dim",
    "linear_value_head_dim", "linear_num_key_heads", "linear_num_value_heads", "mtp_lambda", "input_feed",
)  # fmt: skip
UNUSED_IN_MODEL = (
    "input_feed", "adapter_bias", "projector_activation_fn", "spatial_merge_size", "estimator_type",
    "left_pad", "huggingface_model", "eole_version", "word_vec_size",
)  # fmt: skip
UNUSED_OF_ROTARY = (
    "scaling_factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    "rotary_theta_local",
)  # fmt: skip
LENGTH_PENALTIES = {"avg": "power", "wu": "wu", "none": "none"}
LENGTH_OFFSET = 5  # tokens that an output may have beyond max_length_ratio times those of its source
# settings of decoding that regard does not have, and their defaults
UNSUPPORTED_DECODING = {
    "top_k": 0, "top_p": 0, "ratio": 0, "coverage_penalty": "none", "ban_unk_token": False,
    "replace_unk": False, "ignore_when_blocking": [], "optional_eos": [],
}  # fmt: skip


class Eole(Toolkit):
    """eole's transformer with an encoder and a decoder."""

    name = "eole"
    title = "eole"

    def recognises(self, path: Path) -> bool:
        return path.is_dir() and (path / VOCABULARY).is_file() and any(path.glob(WEIGHTS))

    def read(self, path: Path, *, trust_pickle: bool) -> ToolkitCheckpoint:
        file = path / CONFIG
        table = read_table(file, path)
        settings = Settings(table, str(file))
        model = settings.section("model")
        source, target = read_tokenizers(path, table, read_table(path / VOCABULARY, path))
        tensors: dict[str, Tensor] = {}
        for part in sorted(path.glob(WEIGHTS)):
            tensors |= read_tensors(part)
        config, in_pairs = _config(model, tensors, source.vocab_size, target.vocab_size, target.pad_id)
        has_inference = table.get("inference") is not None
        generation, unused = _decoding(
            settings.section("inference") if has_inference else Settings({}, str(file), "inference.")
        )
        return ToolkitCheckpoint(
            path=path,
            config=config,
            table=_table(config),
            tensors=_weights(tensors, config, path, in_pairs),
            source=source,
            target=target,
            generation=generation,
            unused_decoding=unused,
        )


def _config(
    model: Settings, tensors: Mapping[str, Tensor], src_size: int, tgt_size: int, pad_id: int
) -> tuple[EncoderDecoderConfig, bool]:
    """The config; and True if rotary positions rotate neighbouring features together.

    Raises:
        FolderError: a setting is not supported, or has different values in encoder and decoder.
    """
    model.must_be(
        "architecture", "transformer", "custom", hint="of eole's models only encoder-decoders are supported"
    )
    model.ignore(*UNUSED_IN_MODEL, *OF_BOTH_STACKS)
    model.must_be("generator_function", "softmax")
    model.must_be("add_estimator", False)
    positions = _positions(model)
    stacks = [_stack(model, name, positions, tensors) for name in SIDES]
    encoder, decoder = stacks
    layers = {f"num_{name}_layers": stack.pop("layers") for name, stack in zip(SIDES, stacks, strict=True)}
    refuse_unequal_sides(encoder, decoder, encoder, model.where)
    in_pairs = bool(encoder.pop("in_pairs", False))
    joint = model.take(bool, "share_embeddings", False)
    output_tied = model.take(bool, "share_decoder_embeddings", False)
    output_bias = model.take(bool, "generator_bias", True)
    model.finish()
    config = EncoderDecoderConfig(
        src_vocab_size=src_size,
        tgt_vocab_size=tgt_size,
        norm_position="pre",
        tied=("all" if output_tied else "embeddings") if joint else ("target" if output_tied else "none"),
        output_bias=output_bias,
        source_end=False,  # eole puts no end token after a source
        pad_id=pad_id,
        **layers,
        **positions,
        **encoder,
    )
    return config, in_pairs


def _positions(model: Settings) -> dict[str, Any]:
    """The settings of the embeddings and the positions, by regard's names."""
    table = model.table.get("embeddings")
    model.ignore("embeddings")
    settings = Settings(table if isinstance(table, Mapping) else {}, model.where, "model.embeddings.")
    settings.must_be("embedding_type", "standard")
    settings.must_be("embedding_layer_norm", False)
    settings.must_be("token_type_vocab_size", 0)
    settings.ignore(
        "freeze_word_vecs_enc", "freeze_word_vecs_dec", "position_encoding", "word_vec_size",
        "src_word_vec_size", "tgt_word_vec_size",
    )  # fmt: skip
    normalize = settings.take(bool, "normalize", False)
    settings.ignore("n_positions")  # of learned positions only
    shift = settings.take(int, "position_shift", 0)
    if settings.table.get("position_encoding_type", "") is None:  # null; if it is absent, the default holds
        settings.ignore("position_encoding_type")
        kind, layout = "none", "interleaved"
    else:
        kind, layout = settings.choice(POSITIONS, "position_encoding_type", "SinusoidalInterleaved")
    if kind == "learned" and normalize:
        raise settings.refusal("normalize", "with learned positions only false is")
    own: dict[str, Any] = {}
    if kind == "learned":
        rows = settings.take(int, "n_positions")
        own = {"position_offset": shift, "max_positions": rows - shift}
    settings.finish()
    scaled = normalize or kind == "sinusoidal"  # eole scales them with sinusoids always
    return {"positions": kind, "position_layout": layout, "scaled_embedding": scaled, **own}


def _stack(
    model: Settings, name: str, positions: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> dict[str, Any]:
    """The settings of a stack (`name`: "encoder" or "decoder"), else of the model, by regard's names.

    `layers` and, with rotary positions, `in_pairs` are the names that no config has; see `_config`.
    """
    own = model.section(name).table if model.table.get(name) is not None else {}
    model.ignore(name)
    shared = {setting: model.table[setting] for setting in OF_BOTH_STACKS if setting in model.table}
    settings = Settings({**shared, **own}, model.where, f"model.{name}.")
    take, must_be = settings.take, settings.must_be
    must_be(f"{name}_type", "transformer", hint="only transformers are supported")
    must_be("encoder_layer_style", "standard")
    must_be("final_encoder_layer_norm", True)
    must_be("LM_type", "causal")
    for setting in NEVER_TRUE:
        must_be(setting, False)
    for setting in ZERO:
        must_be(setting, 0)
    for setting in NEVER_SET:
        must_be(setting)
    settings.ignore(*UNUSED_IN_STACKS)
    width = take(int, "hidden_size", 512)
    must_be(f"{SIDES[name]}_word_vec_size", width, -1)
    biases = take(bool, "add_qkvbias", False)
    must_be("add_key_bias", biases)
    settings.ignore("add_final_linear_bias")  # its default depends on the order in which eole reads settings
    output_bias = f"{name}.transformer_layers.0.self_attn.final_linear.bias" in tensors
    if output_bias and not biases:
        raise settings.refusal("add_final_linear_bias", "without add_qkvbias only false is")
    scaling = settings.optional(float, "attn_scaling")
    config = {
        "d_model": width,
        "num_heads": take(int, "heads", 8),
        "num_kv_heads": settings.optional(int, "heads_kv"),
        "head_dim": settings.optional(int, "head_dim"),
        "attention_scale": None if scaling is None else scaling**-0.5,
        "d_ff": take(int, "transformer_ff", 2048),
        "layers": take(int, "layers", 2),
        "activation": settings.choice(ACTIVATIONS, "mlp_activation_fn", "relu"),
        "norm": settings.choice(NORMS, "layer_norm", "standard"),
        "norm_eps": take(float, "norm_eps", 1e-5),
        "attention_bias": "none" if not biases else "all" if output_bias else "inputs",
        "feed_forward_bias": take(bool, "add_ffnbias", False),
    }
    rotary = _rotary(settings)
    settings.finish()
    return {**config, **(rotary if positions["positions"] == "rotary" else {})}


def _rotary(settings: Settings) -> dict[str, Any]:
    """The base of rotary positions, and `in_pairs`: True if features 2i and 2i + 1 are rotated together."""
    table = settings.table.get("rope_config")
    settings.ignore("rope_config")
    rope = Settings(
        table if isinstance(table, Mapping) else {}, settings.where, f"{settings.path}rope_config."
    )
    rope.ignore(*UNUSED_OF_ROTARY)
    for name in ("scaling_type", "alpha", "xdrope_section"):
        rope.must_be(name)
    for name in (
        "rotary_dim",
        "interleave_local",
        "tmax_index",
        "rotary_dim_global",
        "partial_rotary_factor",
    ):
        rope.must_be(name, 0)
    rope.must_be("multidimensional_rope", False)
    in_pairs = rope.take(bool, "rotary_interleave", True)
    base = rope.take(float, "rotary_theta", 10000.0)
    rope.finish()
    return {"rotary_base": base, "in_pairs": in_pairs}


def _weights(
    tensors: dict[str, Tensor], config: EncoderDecoderConfig, path: Path, in_pairs: bool
) -> dict[str, Tensor]:
    """The weights without those that are tied or fixed; rotated features in the order of regard."""
    for side in SIDES.values():
        if config.positions == "sinusoidal":
            drop_sinusoids(tensors, f"{side}_emb.pe.pe", path, layout=config.position_layout)
    EMBEDDINGS.drop_tied(tensors, config.tied, path)
    for name in [name for name in tensors if name.endswith(".layer_scalar")]:  # a block's output times it
        if not torch.equal(tensors[name], torch.ones_like(tensors[name])):
            raise FolderError(f"{path}: {name!r} is not 1", "layers with a factor are not supported")
        del tensors[name]
    if in_pairs:  # regard rotates features i and i + d_head / 2 together
        for name in tensors:
            if re.search(r"\.self_attn\.linear_(query|keys)\.(weight|bias)$", name):
                heads = tensors[name].unflatten(0, (-1, config.d_head // 2, 2))
                tensors[name] = heads.transpose(1, 2).flatten(0, 2).contiguous()
    return tensors


def _table(config: EncoderDecoderConfig) -> list[Entry]:
    """regard's name of each weight, and eole's."""
    entries = EMBEDDINGS.entries(config.tied)
    if config.output_bias:
        entries.append(same("output.bias", "generator.bias"))
    for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        for number in range(count):
            entries += _block(config, f"{side}.blocks.{number}", f"{side}.transformer_layers.{number}", side)
        entries += linear(f"{side}.norm", f"{side}.layer_norm", bias=config.norm == "layer")
        if config.positions == "learned":
            entries.append(same(f"{side}.input.positions.weight", f"{SIDES[side]}_emb.pe.weight"))
    return entries


def _block(config: EncoderDecoderConfig, ours: str, theirs: str, side: str) -> list[Entry]:
    """The names of the weights of the block that is called `ours` and `theirs`; `side` is its stack."""
    norm_bias, biases = config.norm == "layer", config.attention_biases
    parts = ("linear_query", "linear_keys", "linear_values")

    def norm(our_part: str, their_part: str) -> list[Entry]:
        return linear(f"{ours}.{our_part}.norm", f"{theirs}.{their_part}", bias=norm_bias)

    own = f"{theirs}.self_attn"
    entries = [
        *attention(
            config,
            f"{ours}.self_attention",
            [f"{own}.{part}" for part in parts],
            f"{own}.final_linear",
            bias=biases != "none",
            output_bias=biases == "all",
        ),
        *norm("around_self_attention", "input_layernorm"),
        *norm("around_feed_forward", "post_attention_layernorm"),
        *_feed_forward(config, f"{ours}.feed_forward", f"{theirs}.mlp"),
    ]
    if side == "decoder":
        cross = f"{theirs}.context_attn"
        entries += cross_attention(
            f"{ours}.cross_attention",
            [f"{cross}.{part}" for part in parts],
            f"{cross}.final_linear",
            bias=biases != "none",
            output_bias=biases == "all",
        )
        entries += norm("around_cross_attention", "precontext_layernorm")
    return entries


def _feed_forward(config: EncoderDecoderConfig, ours: str, theirs: str) -> list[Entry]:
    """The names of a feed-forward network's weights. A plain one's inner layer is `gate_up_proj`, too."""
    bias = config.has_feed_forward_bias
    if config.activation not in GATES:
        inner = linear(f"{ours}.inner", f"{theirs}.gate_up_proj", bias=bias)
    else:
        inner = [
            Entry(
                ours=f"{ours}.gate_inner.{part}",
                hf=(f"{theirs}.gate_up_proj.{part}", f"{theirs}.up_proj.{part}"),
                widths=(config.d_ff, config.d_ff),
            )
            for part in (("weight", "bias") if bias else ("weight",))
        ]
    return [*inner, *linear(f"{ours}.outer", f"{theirs}.down_proj", bias=bias)]


def _decoding(settings: Settings) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The decoding defaults by regard's names, and those that regard does not have.

    They are those of `eole predict`, unless `settings`, the part `inference`, has others.
    """
    take = settings.take
    ratio, max_length = take(float, "max_length_ratio", 2.0), take(int, "max_length", 250)
    found: dict[str, Any] = {"max_new_tokens": max_length}
    if ratio > 0:
        found = {"max_length_ratio": ratio, "max_length_offset": LENGTH_OFFSET, "max_length": max_length}
    for name, default, ours in (
        ("min_length", 0, "min_length"),
        ("block_ngram_repeat", 0, "no_repeat_ngram_size"),
        ("n_best", 1, "n_best"),
    ):
        if (value := take(int, name, default)) > default:
            found[ours] = value
    generation = search_settings(
        take(int, "beam_size", 5),
        penalty=settings.choice(LENGTH_PENALTIES, "length_penalty", "avg"),
        alpha=take(float, "alpha", 1.0),
        **found,
    )
    given = {name: settings.table.get(name) for name in UNSUPPORTED_DECODING}
    unused = (
        f"{name} = {value}"
        for name, value in given.items()
        if value is not None and value != UNSUPPORTED_DECODING[name]
    )
    return generation, tuple(unused)
