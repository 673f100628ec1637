"""Llama (Touvron et al. 2023) and Qwen3 (Yang et al. 2025)."""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import ConfigReader, ConvertedConfig, Family, refuse_large_integer, widths
from regard.weights.names import Entry, linear, same, stacked_tensors

GATED = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_new": "geglu_tanh",
    "gelu_pytorch_tanh": "geglu_tanh",
}


class Llama(Family):
    """Llama: pre-norm with RMS norms, rotary positions, gated feed-forward, grouped queries, no biases."""

    name = "llama"
    config = DecoderOnlyConfig
    architecture = "LlamaForCausalLM"
    special_tokens: ClassVar = {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}
    buffers: ClassVar = (r"rotary_emb\.inv_freq$",)
    ties: ClassVar = {"lm_head.weight": "model.embed_tokens.weight"}
    qk_norm = False
    adds_bos = True  # True: texts begin with bos

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.must_be("attention_bias", False)
        settings.must_be("mlp_bias", False)
        settings.unused("pretraining_tp", "max_window_layers", "is_decoder")
        self._refuse_windows(settings)
        vocab_size, d_model = take(int, "vocab_size"), take(int, "hidden_size")
        num_heads = take(int, "num_attention_heads")
        tied = settings.optional(bool, "tie_word_embeddings")
        max_positions = take(int, "max_position_embeddings", default=2048)
        config = DecoderOnlyConfig(
            vocab_size=vocab_size,
            d_model=d_model,
            num_heads=num_heads,
            num_kv_heads=settings.optional(int, "num_key_value_heads"),
            head_dim=settings.optional(int, "head_dim"),
            num_layers=take(int, "num_hidden_layers"),
            d_ff=take(int, "intermediate_size"),
            norm="rms",
            norm_eps=take(float, "rms_norm_eps", default=1e-6),
            activation=settings.choice(GATED, "hidden_act", default="silu"),  # type: ignore[arg-type]
            bias=False,
            qk_norm=self.qk_norm,
            positions="rotary",
            max_positions=max_positions,
            trained_length=max_positions,
            rotary_base=_rotary_base(settings),
            dropout=0.0,
            attention_dropout=take(float, "attention_dropout", default=0.0),
            tied=bool(tied),
        )
        return ConvertedConfig(
            config=config,
            start_id=settings.token("bos_token_id", vocab_size),
            pad_id=settings.token("pad_token_id", vocab_size),
            eos_id=settings.token("eos_token_id", vocab_size),
            generation={} if self.adds_bos else {"begin": False, "may_end": True},
        )

    def _refuse_windows(self, settings: ConfigReader) -> None:
        settings.must_be("use_sliding_window", False)
        settings.unused("sliding_window")
        kinds = settings.optional(list, "layer_types") or []
        if any(kind != "full_attention" for kind in kinds):
            raise FolderError(
                f"{settings.where}: layer_types has other types than full_attention",
                "only full_attention is supported",
            )

    def write(self, config: DecoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
        activation = next((name for name, ours in GATED.items() if ours == config.activation), "silu")
        return {
            "model_type": self.name,
            "architectures": [self.architecture],
            "vocab_size": config.vocab_size,
            "hidden_size": config.d_model,
            "num_attention_heads": config.num_heads,
            "num_key_value_heads": config.num_kv_heads or config.num_heads,
            "head_dim": config.d_head,
            "num_hidden_layers": config.num_layers,
            "intermediate_size": config.d_ff,
            "rms_norm_eps": 1e-6 if config.norm_eps is None else config.norm_eps,
            "hidden_act": activation,
            "max_position_embeddings": config.trained_length or config.max_positions,
            "rope_theta": config.rotary_base,
            "rope_parameters": {"rope_type": "default", "rope_theta": config.rotary_base},
            "attention_bias": False,
            "tie_word_embeddings": config.tied,
        }

    def table(self, config: DecoderOnlyConfig) -> list[Entry]:
        entries = [
            same("input.embedding.weight", "model.embed_tokens.weight"),
            same("norm.weight", "model.norm.weight"),
        ]
        if not config.tied:
            entries.append(same("output.weight", "lm_head.weight"))
        for number in range(config.num_layers):
            ours, hf = f"blocks.{number}", f"model.layers.{number}"
            attention, network = f"{ours}.self_attention", f"{ours}.feed_forward"
            qkv = [f"{hf}.self_attn.{each}_proj" for each in "qkv"]
            gate = [f"{hf}.mlp.{each}_proj" for each in ("gate", "up")]
            entries += [
                *linear(f"{ours}.around_self_attention.norm", f"{hf}.input_layernorm", bias=False),
                *linear(f"{ours}.around_feed_forward.norm", f"{hf}.post_attention_layernorm", bias=False),
                *stacked_tensors(f"{attention}.query_key_value", qkv, widths(config), bias=False),
                *linear(f"{attention}.output", f"{hf}.self_attn.o_proj", bias=False),
                *stacked_tensors(f"{network}.gate_inner", gate, (config.d_ff, config.d_ff), bias=False),
                *linear(f"{network}.outer", f"{hf}.mlp.down_proj", bias=False),
            ]
            if self.qk_norm:
                entries += [
                    *linear(f"{attention}.query_norm", f"{hf}.self_attn.q_norm", bias=False),
                    *linear(f"{attention}.key_norm", f"{hf}.self_attn.k_norm", bias=False),
                ]
        return entries


class Qwen3(Llama):
    """Qwen3: Llama with normalised queries and keys in each head."""

    name = "qwen3"
    architecture = "Qwen3ForCausalLM"
    special_tokens: ClassVar = {"pad": "<|endoftext|>", "eos": "<|im_end|>"}
    qk_norm = True
    adds_bos = False


def _rotary_base(settings: ConfigReader) -> float:
    """The value of `rope_theta`, which may be at the top or inside `rope_parameters`."""
    table = settings.optional(dict, "rope_parameters") or {}
    scaling = settings.optional(dict, "rope_scaling") or {}
    for place in (table, scaling):
        kind = place.get("rope_type", place.get("type", "default"))
        if kind != "default":
            raise FolderError(
                f"{settings.where}: rotary positions of type {kind!r} are not supported", "only 'default' is"
            )
        for name, value in place.items():
            if name not in ROTARY and (name, value) != ("partial_rotary_factor", 1.0):
                raise FolderError(
                    f"{settings.where}: {name} = {value!r} of rotary positions is not supported",
                    f"only {', '.join(ROTARY)} are",
                )
    settings.must_be("partial_rotary_factor", 1.0)
    base = {"rope_theta": settings.take(float, "rope_theta", default=10000.0), **scaling, **table}[
        "rope_theta"
    ]
    if type(base) not in (int, float):
        raise FolderError(f"{settings.where}: rope_theta = {base!r} is not a number", "10000.0 is usual")
    refuse_large_integer(base, f"{settings.where}: rope_theta")
    return float(base)


ROTARY = ("rope_type", "type", "rope_theta")
