"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023)."""

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
from regard.weights.families.rotary import read_rotary, write_rotary
from regard.weights.names import Entry, linear, same

NAMES = ("rotary_emb_base", "rotary_pct")  # settings of the rotary base, and of the rotated part of a head


class GPTNeoX(Family):
    """GPT-NeoX: parallel residuals with two norms, rotary positions in a part of each head, biases.

    The rows of `query_key_value` in a file are query, key and value of the first head, then of the next one.
    """

    name = "gpt_neox"
    config = DecoderOnlyConfig
    special_tokens: ClassVar = dict.fromkeys(("unk", "bos", "eos"), "<|endoftext|>")
    renames: ClassVar = ((r"^lm_head\.", "embed_out."),)
    buffers: ClassVar = (r"\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)$",)
    ties: ClassVar = {"embed_out.weight": "gpt_neox.embed_in.weight"}

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.refuse_other_heads("GPTNeoXForCausalLM")
        settings.must_be("is_decoder", False, True)  # it attends causally in any case
        settings.unused("classifier_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob")
        vocab_size, d_model = take(int, "vocab_size", default=50432), take(int, "hidden_size", default=6144)
        num_heads = take(int, "num_attention_heads", default=64)
        max_positions = take(int, "max_position_embeddings", default=2048)
        settings.must_be("head_dim", d_model // max(1, num_heads))
        rotary = read_rotary(settings, max_positions, rotated=0.25, partial=True, names=NAMES)
        config = DecoderOnlyConfig(
            vocab_size=vocab_size,
            d_model=d_model,
            num_heads=num_heads,
            num_layers=take(int, "num_hidden_layers", default=44),
            d_ff=take(int, "intermediate_size", default=24576),
            norm_eps=take(float, "layer_norm_eps", default=1e-5),
            activation=settings.choice(ACTIVATION_NAMES, "hidden_act", default="gelu"),  # type: ignore[arg-type]
            attention_bias=None if take(bool, "attention_bias", default=True) else "none",
            parallel_residual="two_norms" if take(bool, "use_parallel_residual", default=True) else None,
            max_positions=max_positions,
            trained_length=max_positions,
            dropout=take(float, "hidden_dropout", default=0.0),
            attention_dropout=take(float, "attention_dropout", default=0.0),
            tied=take(bool, "tie_word_embeddings", default=False),
            **rotary.settings(d_model // max(1, num_heads)),
        )
        return ConvertedConfig(
            config=config,
            start_id=settings.token_or("bos_token_id", vocab_size, 0),
            pad_id=settings.token("pad_token_id", vocab_size),
            eos_id=settings.token_or("eos_token_id", vocab_size, 2),
            generation={"begin": False, "may_end": True},
        )

    def write(self, config: DecoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": ["GPTNeoXForCausalLM"],
            "vocab_size": config.vocab_size,
            "hidden_size": config.d_model,
            "num_attention_heads": config.num_heads,
            "num_hidden_layers": config.num_layers,
            "intermediate_size": config.d_ff,
            "layer_norm_eps": 1e-5 if config.norm_eps is None else config.norm_eps,
            "hidden_act": activation_name(config.activation),
            "attention_bias": config.attention_biases != "none",
            "use_parallel_residual": config.parallel_residual is not None,
            "max_position_embeddings": config.position_limit or config.trained_length or config.max_positions,
            "hidden_dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "tie_word_embeddings": config.tied,
            **write_rotary(config, partial=True, names=NAMES),
        }

    def table(self, config: DecoderOnlyConfig) -> list[Entry]:
        entries = [
            same("input.embedding.weight", "gpt_neox.embed_in.weight"),
            *linear("norm", "gpt_neox.final_layer_norm"),
        ]
        if not config.tied:
            entries.append(same("output.weight", "embed_out.weight"))
        has_bias = config.attention_biases != "none"
        for number in range(config.num_layers):
            ours, hf = f"blocks.{number}", f"gpt_neox.layers.{number}"
            attention = f"{ours}.self_attention"
            stacked = linear(f"{attention}.query_key_value", f"{hf}.attention.query_key_value", bias=has_bias)
            entries += [
                *linear(f"{ours}.around_self_attention.norm", f"{hf}.input_layernorm"),
                *linear(f"{ours}.around_feed_forward.norm", f"{hf}.post_attention_layernorm"),
                *(dataclasses.replace(each, heads=config.num_heads) for each in stacked),
                *linear(f"{attention}.output", f"{hf}.attention.dense", bias=has_bias),
                *linear(f"{ours}.feed_forward.inner", f"{hf}.mlp.dense_h_to_4h"),
                *linear(f"{ours}.feed_forward.outer", f"{hf}.mlp.dense_4h_to_h"),
            ]
        return entries

    def in_family_form(
        self, config: DecoderOnlyConfig, tensors: Mapping[str, Tensor]
    ) -> tuple[DecoderOnlyConfig, Mapping[str, Tensor]]:
        """Gives the config the biases of the family; those that the model lacks are written as zeros."""
        attention = config.attention_biases
        if attention == "inputs":
            attention = "all"
        return dataclasses.replace(
            config, bias=True, attention_bias=attention, feed_forward_bias=None
        ), tensors
