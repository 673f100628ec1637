"""GPT-2 (Radford et al. 2019)."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import (
    ACTIVATION_NAMES,
    ConfigReader,
    ConvertedConfig,
    Family,
    activation_name,
)
from regard.weights.names import Entry, linear, same


class GPT2(Family):
    """GPT-2: pre-norm, learned positions, a tied head; its weight matrices are transposed."""

    name = "gpt2"
    config = DecoderOnlyConfig
    special_tokens: ClassVar = dict.fromkeys(("pad", "unk", "bos", "eos"), "<|endoftext|>")
    renames: ClassVar = ((r"^(?=(wte|wpe|h|ln_f)\.)", "transformer."),)
    buffers: ClassVar = (r"^transformer\.h\.\d+\.attn\.(bias|masked_bias)$",)
    ties: ClassVar = {"lm_head.weight": "transformer.wte.weight"}

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.refuse_other_heads("GPT2LMHeadModel")
        settings.unused("n_ctx", "is_decoder", *(f"summary_{what}" for what in SUMMARY))
        settings.must_be("scale_attn_weights", True)
        settings.must_be("scale_attn_by_inverse_layer_idx", False)
        settings.must_be("add_cross_attention", False)
        settings.must_be("tie_word_embeddings", True)
        settings.unused("reorder_and_upcast_attn")
        d_model = take(int, "n_embd", "hidden_size", default=768)
        vocab_size = take(int, "vocab_size", default=50257)
        max_positions = take(int, "n_positions", "max_position_embeddings", default=1024)
        config = DecoderOnlyConfig(
            vocab_size=vocab_size,
            d_model=d_model,
            num_heads=take(int, "n_head", "num_attention_heads", default=12),
            num_layers=take(int, "n_layer", "num_hidden_layers", default=12),
            d_ff=take(int, "n_inner", default=4 * d_model),
            activation=settings.choice(ACTIVATION_NAMES, "activation_function", default="gelu_new"),  # type: ignore[arg-type]
            norm_eps=take(float, "layer_norm_epsilon", default=1e-5),
            max_positions=max_positions,
            trained_length=max_positions,
            dropout=take(float, "resid_pdrop", "embd_pdrop", default=0.1),
            attention_dropout=take(float, "attn_pdrop", default=0.1),
        )
        eos_id = settings.token("eos_token_id", vocab_size)
        return ConvertedConfig(
            config=config,
            start_id=settings.token("bos_token_id", vocab_size),
            pad_id=settings.token("pad_token_id", vocab_size),
            eos_id=eos_id,
            generation={"begin": False, "may_end": True},
        )

    def write(self, config: DecoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": config.vocab_size,
            "n_embd": config.d_model,
            "n_head": config.num_heads,
            "n_layer": config.num_layers,
            "n_inner": config.d_ff,
            "n_positions": config.max_positions,
            "activation_function": activation_name(config.activation, otherwise="gelu_new"),
            "layer_norm_epsilon": 1e-5 if config.norm_eps is None else config.norm_eps,
            "resid_pdrop": config.dropout,
            "embd_pdrop": config.dropout,
            "attn_pdrop": config.attention_dropout,
            "tie_word_embeddings": True,
        }

    def table(self, config: DecoderOnlyConfig) -> list[Entry]:
        entries = [
            same("input.embedding.weight", "transformer.wte.weight"),
            same("input.positions.weight", "transformer.wpe.weight"),
            *linear("norm", "transformer.ln_f"),
        ]
        for number in range(config.num_layers):
            ours, hf = f"blocks.{number}", f"transformer.h.{number}"
            entries += [
                *linear(f"{ours}.around_self_attention.norm", f"{hf}.ln_1"),
                *linear(f"{ours}.around_feed_forward.norm", f"{hf}.ln_2"),
            ]
            for our_name, name in LINEAR_LAYERS.items():
                entries += [
                    same(f"{ours}.{our_name}.weight", f"{hf}.{name}.weight", transposed=True),
                    same(f"{ours}.{our_name}.bias", f"{hf}.{name}.bias"),
                ]
        return entries

    def in_family_form(
        self, config: DecoderOnlyConfig, tensors: Mapping[str, Tensor]
    ) -> tuple[DecoderOnlyConfig, Mapping[str, Tensor]]:
        """Adds zero biases if the model has none."""
        return dataclasses.replace(config, bias=True), tensors


LINEAR_LAYERS = {
    "self_attention.query_key_value": "attn.c_attn",
    "self_attention.output": "attn.c_proj",
    "feed_forward.inner": "mlp.c_fc",
    "feed_forward.outer": "mlp.c_proj",
}
SUMMARY = ("type", "use_proj", "activation", "proj_to_labels", "first_dropout")
