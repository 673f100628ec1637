"""OLMo 2 (Walsh et al. 2025)."""

from typing import Any, ClassVar

from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import ConfigReader
from regard.weights.families.llama import Llama


class OLMo2(Llama):
    """OLMo 2: Llama with norms of sub-layers' outputs, and norms of all query and key heads at once."""

    name = "olmo2"
    architecture = "Olmo2ForCausalLM"
    special_tokens: ClassVar = {"pad": "<|pad|>", "unk": "<|endoftext|>", "eos": "<|endoftext|>"}
    adds_bos = False
    norm_position = "reordered"
    norms: ClassVar = {
        "self_attention.norm": "post_attention_layernorm",
        "feed_forward.norm": "post_feedforward_layernorm",
    }
    norm_eps = 1e-5
    qk_norm = "all_heads"

    def biases(self, settings: ConfigReader) -> dict[str, Any]:
        settings.must_be("mlp_bias", False)
        return {"attention_bias": "all" if settings.take(bool, "attention_bias", default=False) else None}

    def written_biases(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        return {"attention_bias": config.attention_biases == "all"}
