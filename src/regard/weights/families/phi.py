"""Phi 1, 1.5 and 2 (Gunasekar et al. 2023, Li et al. 2023)."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import (
    ACTIVATION_NAMES,
    ConfigReader,
    ConvertedConfig,
    Family,
    activation_name,
    widths,
)
from regard.weights.families.rotary import read_rotary, write_rotary
from regard.weights.names import Entry, linear, same, stacked_tensors


class Phi(Family):
    """Phi: parallel residuals with one norm, rotary positions in a part of each head, biases everywhere."""

    name = "phi"
    config = DecoderOnlyConfig
    special_tokens: ClassVar = dict.fromkeys(("unk", "bos", "eos"), "<|endoftext|>")
    buffers: ClassVar = (r"\.self_attn\.rotary_emb\.inv_freq$",)
    ties: ClassVar = {"lm_head.weight": "model.embed_tokens.weight"}

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.refuse_other_heads("PhiForCausalLM")
        vocab_size, d_model = take(int, "vocab_size", default=51200), take(int, "hidden_size", default=2048)
        num_heads = take(int, "num_attention_heads", default=32)
        max_positions = take(int, "max_position_embeddings", default=2048)
        settings.must_be("head_dim", d_model // max(1, num_heads))
        rotary = read_rotary(settings, max_positions, rotated=0.5, partial=True)
        config = DecoderOnlyConfig(
            vocab_size=vocab_size,
            d_model=d_model,
            num_heads=num_heads,
            num_kv_heads=settings.optional(int, "num_key_value_heads"),
            num_layers=take(int, "num_hidden_layers", default=24),
            d_ff=take(int, "intermediate_size", default=8192),
            norm_eps=take(float, "layer_norm_eps", default=1e-5),
            activation=settings.choice(ACTIVATION_NAMES, "hidden_act", default="gelu_new"),  # type: ignore[arg-type]
            parallel_residual="one_norm",
            qk_norm=take(bool, "qk_layernorm", default=False),
            max_positions=max_positions,
            trained_length=max_positions,
            dropout=take(float, "resid_pdrop", default=0.0),
            attention_dropout=take(float, "attention_dropout", default=0.0),
            tied=take(bool, "tie_word_embeddings", default=False),
            output_bias=True,
            **rotary.settings(d_model // max(1, num_heads)),
        )
        settings.must_be("embd_pdrop", config.dropout)  # one dropout for both
        return ConvertedConfig(
            config=config,
            start_id=settings.token_or("bos_token_id", vocab_size, 1),
            pad_id=settings.token("pad_token_id", vocab_size),
            eos_id=settings.token_or("eos_token_id", vocab_size, 2),
            generation={"begin": False, "may_end": True},
        )

    def write(self, config: DecoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": ["PhiForCausalLM"],
            "vocab_size": config.vocab_size,
            "hidden_size": config.d_model,
            "num_attention_heads": config.num_heads,
            "num_key_value_heads": config.num_kv_heads or config.num_heads,
            "num_hidden_layers": config.num_layers,
            "intermediate_size": config.d_ff,
            "layer_norm_eps": 1e-5 if config.norm_eps is None else config.norm_eps,
            "hidden_act": activation_name(config.activation),
            "qk_layernorm": bool(config.qk_norm),
            "max_position_embeddings": config.position_limit or config.trained_length or config.max_positions,
            "resid_pdrop": config.dropout,
            "embd_pdrop": config.dropout,
            "attention_dropout": config.attention_dropout,
            "tie_word_embeddings": config.tied,
            **write_rotary(config, partial=True),
        }

    def table(self, config: DecoderOnlyConfig) -> list[Entry]:
        entries = [
            same("input.embedding.weight", "model.embed_tokens.weight"),
            *linear("norm", "model.final_layernorm"),
            same("output.bias", "lm_head.bias"),
        ]
        if not config.tied:
            entries.append(same("output.weight", "lm_head.weight"))
        for number in range(config.num_layers):
            ours, hf = f"blocks.{number}", f"model.layers.{number}"
            attention, qkv = f"{ours}.self_attention", [f"{hf}.self_attn.{each}_proj" for each in "qkv"]
            entries += [
                *linear(f"{ours}.around_feed_forward.norm", f"{hf}.input_layernorm"),  # and of the attention
                *stacked_tensors(f"{attention}.query_key_value", qkv, widths(config)),
                *linear(f"{attention}.output", f"{hf}.self_attn.dense"),
                *linear(f"{ours}.feed_forward.inner", f"{hf}.mlp.fc1"),
                *linear(f"{ours}.feed_forward.outer", f"{hf}.mlp.fc2"),
            ]
            if config.qk_norm:
                entries += [
                    *linear(f"{attention}.query_norm", f"{hf}.self_attn.q_layernorm"),
                    *linear(f"{attention}.key_norm", f"{hf}.self_attn.k_layernorm"),
                ]
        return entries

    def in_family_form(
        self, config: DecoderOnlyConfig, tensors: Mapping[str, Tensor]
    ) -> tuple[DecoderOnlyConfig, Mapping[str, Tensor]]:
        """Adds zero biases where the model has none."""
        form = dataclasses.replace(
            config, bias=True, attention_bias=None, feed_forward_bias=None, output_bias=True
        )
        if not config.output_bias:
            tensors = {**tensors, "output.bias": torch.zeros(config.vocab_size)}
        return form, tensors
