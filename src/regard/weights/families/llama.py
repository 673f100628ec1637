"""Llama (Touvron et al. 2023), Mistral (Jiang et al. 2023), Qwen2 and Qwen3 (Yang et al. 2024, 2025)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal

from regard.errors import FolderError
from regard.layers.block import NormPosition
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import ConfigReader, ConvertedConfig, Family, widths
from regard.weights.families.layer_types import (
    FULL,
    SLIDING,
    read_layer_types,
    window_settings,
    written_layer_types,
)
from regard.weights.families.rotary import read_rotary, write_rotary
from regard.weights.names import Entry, linear, same, stacked_tensors

GATED = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_new": "geglu_tanh",
    "gelu_pytorch_tanh": "geglu_tanh",
}


class Llama(Family):
    """Llama: pre-norm with RMS norms, rotary positions, gated feed-forward, grouped queries."""

    name = "llama"
    config = DecoderOnlyConfig
    architecture = "LlamaForCausalLM"
    special_tokens: ClassVar = {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}
    buffers: ClassVar = (r"rotary_emb\.inv_freq$",)
    ties: ClassVar = {"lm_head.weight": "model.embed_tokens.weight"}
    norm_position: NormPosition = "pre"
    norms: ClassVar = {  # of a layer: ours after "around_", theirs
        "self_attention.norm": "input_layernorm",
        "feed_forward.norm": "post_attention_layernorm",
    }
    norm_eps = 1e-6
    qk_norm: bool | Literal["all_heads"] = False
    adds_bos = True  # True: texts begin with bos
    max_positions = 2048  # what transformers takes if a setting is absent, here and below
    num_kv_heads: int | None = None
    head_dim: int | None = None
    tied = False
    scaled_embedding = False
    norm_offset = 0.0  # added to the gains of the file

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.unused("pretraining_tp", "is_decoder", "is_llama_config", "transformers.js_config")
        settings.must_be("rope_interleaved", False)
        settings.refuse_other_heads(self.architecture)
        vocab_size, d_model = take(int, "vocab_size"), take(int, "hidden_size")
        num_heads, num_layers = take(int, "num_attention_heads"), take(int, "num_hidden_layers")
        head_dim = settings.unless_absent(int, "head_dim", self.head_dim)  # type: ignore[type-var]
        max_positions = take(int, "max_position_embeddings", default=self.max_positions)
        windows = self.windows(settings, num_layers)
        config = DecoderOnlyConfig(
            vocab_size=vocab_size,
            d_model=d_model,
            num_heads=num_heads,
            num_kv_heads=settings.unless_absent(int, "num_key_value_heads", self.num_kv_heads),  # type: ignore[type-var]
            head_dim=head_dim,
            num_layers=num_layers,
            d_ff=take(int, "intermediate_size"),
            norm="rms",
            norm_eps=take(float, "rms_norm_eps", default=self.norm_eps),
            norm_position=self.norm_position,
            activation=self.activation(settings),  # type: ignore[arg-type]
            bias=False,
            qk_norm=self.qk_norm,
            max_positions=max_positions,
            trained_length=max_positions,
            dropout=0.0,
            attention_dropout=take(float, "attention_dropout", default=0.0),
            tied=take(bool, "tie_word_embeddings", default=self.tied),
            scaled_embedding=self.scaled_embedding,
            **windows,
            **self.biases(settings),
            **self.rotary(settings, max_positions, head_dim or d_model // max(1, num_heads), windows),
            **self.scores(settings),
        )
        return ConvertedConfig(
            config=config,
            start_id=settings.token("bos_token_id", vocab_size),
            pad_id=settings.token("pad_token_id", vocab_size),
            eos_id=settings.token("eos_token_id", vocab_size),
            generation={} if self.adds_bos else {"begin": False, "may_end": True},
        )

    def rotary(
        self, settings: ConfigReader, max_positions: int, d_head: int, windows: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Rotary positions, as our settings."""
        return read_rotary(settings, max_positions).settings(d_head)

    def scores(self, settings: ConfigReader) -> dict[str, Any]:
        """The scale and the caps of scores and logits, as our settings."""
        return {}

    def activation(self, settings: ConfigReader) -> str:
        """The activation of the feed-forward network."""
        return settings.choice(GATED, "hidden_act", default="silu")

    def biases(self, settings: ConfigReader) -> dict[str, Any]:
        """Which linear layers have biases, as our settings."""
        attention = settings.take(bool, "attention_bias", default=False)
        network = settings.take(bool, "mlp_bias", default=False)
        return {
            "attention_bias": "all" if attention else None,
            "feed_forward_bias": True if network else None,
        }

    def windows(self, settings: ConfigReader, num_layers: int) -> dict[str, Any]:
        """Which layers have a sliding window, as our settings."""
        settings.must_be("use_sliding_window", False)
        settings.must_be("sliding_window")
        settings.unused("max_window_layers")
        self.one_layer_type(settings, [FULL] * num_layers)
        return {}

    def one_layer_type(self, settings: ConfigReader, usual: Sequence[str]) -> None:
        """Refuses other types than `usual`: transformers has one window for all layers of this family."""
        for kind in read_layer_types(settings, usual):
            if kind != usual[0]:
                raise FolderError(
                    f"{settings.where}: the type {kind!r} of layer_types does not fit the other settings",
                    f"only {usual[0]} does",
                )

    def write(self, config: DecoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
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
            "hidden_act": next((name for name, ours in GATED.items() if ours == config.activation), "silu"),
            "max_position_embeddings": config.position_limit or config.trained_length or config.max_positions,
            "tie_word_embeddings": config.tied,
            **self.written_rotary(config),
            **self.written_scores(config),
            **self.written_biases(config),
            **self.written_windows(config),
        }

    def written_rotary(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        """The inverse of `rotary`."""
        return write_rotary(config)

    def written_scores(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        """The inverse of `scores`."""
        return {}

    def written_biases(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        """The inverse of `biases`."""
        return {
            "attention_bias": config.attention_biases == "all",
            "mlp_bias": config.has_feed_forward_bias,
        }

    def written_windows(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        """The inverse of `windows`."""
        return {}

    def table(self, config: DecoderOnlyConfig) -> list[Entry]:
        entries = [
            same("input.embedding.weight", "model.embed_tokens.weight"),
            self.norm("norm", "model.norm"),
        ]
        if not config.tied:
            entries.append(same("output.weight", "lm_head.weight"))
        for number in range(config.num_layers):
            entries += self.layer(config, f"blocks.{number}", f"model.layers.{number}")
        return entries

    def norm(self, ours: str, hf: str) -> Entry:
        """The entry of a norm."""
        return Entry(ours=f"{ours}.weight", hf=(f"{hf}.weight",), offset=self.norm_offset)

    def layer(self, config: DecoderOnlyConfig, ours: str, hf: str) -> list[Entry]:
        """The entries of a layer."""
        attention, network = f"{ours}.self_attention", f"{ours}.feed_forward"
        qkv = [f"{hf}.self_attn.{each}_proj" for each in "qkv"]
        gate = [f"{hf}.mlp.{each}_proj" for each in ("gate", "up")]
        biases, inner = config.attention_biases, config.has_feed_forward_bias
        entries = [
            *(self.norm(f"{ours}.around_{own}", f"{hf}.{name}") for own, name in self.norms.items()),
            *stacked_tensors(f"{attention}.query_key_value", qkv, widths(config), bias=biases != "none"),
            *linear(f"{attention}.output", f"{hf}.self_attn.o_proj", bias=biases == "all"),
            *stacked_tensors(f"{network}.gate_inner", gate, (config.d_ff, config.d_ff), bias=inner),
            *linear(f"{network}.outer", f"{hf}.mlp.down_proj", bias=inner),
        ]
        if self.qk_norm:
            entries += [
                self.norm(f"{attention}.query_norm", f"{hf}.self_attn.q_norm"),
                self.norm(f"{attention}.key_norm", f"{hf}.self_attn.k_norm"),
            ]
        return entries


class Mistral(Llama):
    """Mistral: Llama with a sliding window, without biases."""

    name = "mistral"
    architecture = "MistralForCausalLM"
    max_positions = 131072
    num_kv_heads = 8

    def biases(self, settings: ConfigReader) -> dict[str, Any]:
        settings.must_be("attention_bias", False)
        settings.must_be("mlp_bias", False)
        return {}

    def written_biases(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        return {}

    def windows(self, settings: ConfigReader, num_layers: int) -> dict[str, Any]:
        window = settings.unless_absent(int, "sliding_window", 4096)
        self.one_layer_type(settings, [FULL if window is None else SLIDING] * num_layers)
        return {"window": window}

    def written_windows(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        return {"sliding_window": config.window}


class Qwen2(Llama):
    """Qwen2 and Qwen2.5: Llama with biases of queries, keys and values."""

    name = "qwen2"
    architecture = "Qwen2ForCausalLM"
    special_tokens: ClassVar = {"pad": "<|endoftext|>", "eos": "<|im_end|>"}
    adds_bos = False
    max_positions = 32768
    num_kv_heads = 32

    def biases(self, settings: ConfigReader) -> dict[str, Any]:
        settings.must_be("attention_bias", True)
        settings.must_be("mlp_bias", False)
        return {"attention_bias": "inputs"}

    def written_biases(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        return {}

    def windows(self, settings: ConfigReader, num_layers: int) -> dict[str, Any]:
        settings.must_be("use_mrope", False)
        window = settings.unless_absent(int, "sliding_window", 4096)
        first = settings.take(int, "max_window_layers", default=28)
        if not settings.take(bool, "use_sliding_window", default=False):
            window = None
        usual = [SLIDING if window is not None and number >= first else FULL for number in range(num_layers)]
        return window_settings(settings, read_layer_types(settings, usual), window)

    def written_windows(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        if config.window is None:
            return {"use_sliding_window": False}
        types = written_layer_types(config)
        first = types.index(SLIDING)
        return {
            "use_sliding_window": True,
            "sliding_window": config.window,
            "max_window_layers": first,
            "layer_types": types,
        }


class Qwen3(Qwen2):
    """Qwen3: Llama with normalised queries and keys in each head."""

    name = "qwen3"
    architecture = "Qwen3ForCausalLM"
    head_dim = 128
    qk_norm = True

    def biases(self, settings: ConfigReader) -> dict[str, Any]:
        settings.must_be("mlp_bias", False)
        return {"attention_bias": "all" if settings.take(bool, "attention_bias", default=False) else None}

    def written_biases(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        return {"attention_bias": config.attention_biases == "all"}
