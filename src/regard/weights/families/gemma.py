"""Gemma (Gemma Team 2024), Gemma 2 (2024) and the text models of Gemma 3 (2025)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import ConfigReader
from regard.weights.families.layer_types import (
    FULL,
    SLIDING,
    read_layer_types,
    window_settings,
    written_layer_types,
)
from regard.weights.families.llama import GATED, Llama
from regard.weights.families.rotary import layered_rotary, read_rotary_by_type, write_rotary_by_type

TANH = "gelu_pytorch_tanh"
WINDOW = 4096
BASES = ("rope_theta", "rope_local_base_freq")


class Gemma(Llama):
    """Gemma: Llama with scaled embeddings, wide heads and GEGLU; files have the gains of norms less 1."""

    name = "gemma"
    architecture = "GemmaForCausalLM"
    special_tokens: ClassVar = {"pad": "<pad>", "unk": "<unk>", "bos": "<bos>", "eos": "<eos>"}
    max_positions = 8192
    num_kv_heads = 16
    head_dim = 256
    tied = True
    scaled_embedding = True
    norm_offset = 1.0

    def activation(self, settings: ConfigReader) -> str:
        settings.must_be("hidden_activation", TANH)
        known = {**GATED, "gelu": GATED[TANH]}  # as transformers reads old files, which mean this one
        return settings.choice(known, "hidden_act", default=TANH)

    def biases(self, settings: ConfigReader) -> dict[str, Any]:
        settings.must_be("use_bidirectional_attention", False)
        settings.must_be("mlp_bias", False)
        return {"attention_bias": "all" if settings.take(bool, "attention_bias", default=False) else None}

    def written_biases(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        return {"attention_bias": config.attention_biases == "all"}


class Gemma2(Gemma):
    """Gemma 2: Gemma with norms on both sides, windows in every other layer, and soft caps."""

    name = "gemma2"
    architecture = "Gemma2ForCausalLM"
    num_kv_heads = 4
    norm_position = "sandwich"
    norms: ClassVar = {
        "self_attention.norm_before": "input_layernorm",
        "self_attention.norm_after": "post_attention_layernorm",
        "feed_forward.norm_before": "pre_feedforward_layernorm",
        "feed_forward.norm_after": "post_feedforward_layernorm",
    }
    caps = (50.0, 30.0)  # of attention scores and of logits, if settings are absent

    def activation(self, settings: ConfigReader) -> str:
        found = settings.choice(GATED, "hidden_activation", default=TANH)
        name = settings.optional(
            str, "hidden_act"
        )  # older files repeat it here; transformers does not read it
        if name is not None and GATED.get(name) != found:
            raise FolderError(
                f"{settings.where}: hidden_act = {name!r} differs from hidden_activation", "remove it"
            )
        return found

    def windows(self, settings: ConfigReader, num_layers: int) -> dict[str, Any]:
        window = settings.unless_absent(int, "sliding_window", WINDOW)
        settings.must_be("sliding_window_size", window)  # in some files, not read by transformers
        settings.unused("cache_implementation")
        return window_settings(settings, self.layer_types(settings, num_layers), window)

    def layer_types(self, settings: ConfigReader, num_layers: int) -> list[str]:
        """The type of each layer."""
        return read_layer_types(settings, [FULL if number % 2 else SLIDING for number in range(num_layers)])

    def scores(self, settings: ConfigReader) -> dict[str, Any]:
        scalar = settings.take(float, "query_pre_attn_scalar", default=256.0)
        if not scalar > 0:
            raise FolderError(
                f"{settings.where}: query_pre_attn_scalar = {scalar} is not above 0", "256 is usual"
            )
        return {"attention_scale": scalar**-0.5, **self.softcaps(settings)}

    def softcaps(self, settings: ConfigReader) -> dict[str, Any]:
        """The caps of scores and logits, as our settings."""
        attention, logits = self.caps
        return {
            "attention_softcap": settings.unless_absent(float, "attn_logit_softcapping", attention),
            "logit_softcap": settings.unless_absent(float, "final_logit_softcapping", logits),
        }

    def written_scores(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        scale = config.attention_scale or config.d_head**-0.5
        return {
            "hidden_activation": next((hf for hf, ours in GATED.items() if ours == config.activation), TANH),
            "query_pre_attn_scalar": round(scale**-2),  # transformers takes no fraction
            "attn_logit_softcapping": config.attention_softcap,
            "final_logit_softcapping": config.logit_softcap,
        }

    def written_windows(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        window = WINDOW if config.window is None else config.window  # transformers needs one in any case
        return {"sliding_window": window, "layer_types": written_layer_types(config)}


class Gemma3Text(Gemma2):
    """Gemma 3's text models: Gemma 2 without caps, with norms of heads, and a local rotary base."""

    name = "gemma3_text"
    architecture = "Gemma3ForCausalLM"
    max_positions = 131072
    qk_norm = True

    def layer_types(self, settings: ConfigReader, num_layers: int) -> list[str]:
        if settings.table.get("layer_types") is None:
            settings.must_be("_sliding_window_pattern", settings.table.get("sliding_window_pattern", 6))
        settings.unused("_sliding_window_pattern")  # layer_types precede both
        every = settings.take(int, "sliding_window_pattern", default=6)
        if every < 1:
            raise FolderError(f"{settings.where}: sliding_window_pattern = {every} is below 1", "6 is usual")
        usual = [SLIDING if (number + 1) % every else FULL for number in range(num_layers)]
        return read_layer_types(settings, usual)

    def rotary(
        self, settings: ConfigReader, max_positions: int, d_head: int, windows: Mapping[str, Any]
    ) -> dict[str, Any]:
        full, local = read_rotary_by_type(settings, max_positions, bases=BASES, usual=(1e6, 1e4))
        return layered_rotary(full, local, d_head, windows)

    def softcaps(self, settings: ConfigReader) -> dict[str, Any]:
        settings.must_be("attn_logit_softcapping")  # transformers reads it and does not use it
        return {"logit_softcap": settings.unless_absent(float, "final_logit_softcapping", None)}  # type: ignore[type-var]

    def written_rotary(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        return write_rotary_by_type(config, BASES)
