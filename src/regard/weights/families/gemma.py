"""Gemma (Gemma Team 2024)."""

from typing import Any, ClassVar

from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import ConfigReader
from regard.weights.families.llama import GATED, Llama

TANH = "gelu_pytorch_tanh"


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
