"""Marian (Junczys-Dowmunt et al. 2018; OPUS-MT) and BART (Lewis et al. 2020)."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.errors import FolderError
from regard.layers.positions import sinusoids
from regard.models.config import TransformerConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.family import (
    ACTIVATION_NAMES,
    OTHER_HEADS,
    ConfigReader,
    ConvertedConfig,
    Family,
    activation_name,
    widths,
)
from regard.weights.families.interleaved import split_layout
from regard.weights.names import Entry, linear, same, stacked_tensors

SHARED = "model.shared.weight"
STACKS = ("encoder", "decoder")


class Marian(Family):
    """Marian: post-norm, split sinusoidal positions, scaled embeddings, an output bias."""

    name = "marian"
    config = EncoderDecoderConfig
    class_name = "MarianMTModel"
    positions = "sinusoidal"
    layout = "split"
    offset = 0
    embedding_norm = False  # True: the embeddings are normalised
    one_embedding = False  # True: source and target always have the same
    norm_position = "post"  # "pre": each stack has a final norm, too
    output_bias = True
    activation = "gelu"  # what transformers takes if a setting is absent, here and below
    scaled_embedding = False
    attention_dropout = 0.0
    token_ids: ClassVar[Mapping[str, int]] = {}
    special_tokens: ClassVar = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    ties: ClassVar = {
        "model.encoder.embed_tokens.weight": SHARED,
        "model.decoder.embed_tokens.weight": SHARED,
        "lm_head.weight": SHARED,
    }
    buffers: ClassVar = (r"^model\.(encoder|decoder)\.embed_positions\.weight$",)

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """Renames for models without a head, which lack "model.", and for a renamed shared embedding."""
        if "encoder.layers.0.fc1.weight" in names:
            return [(r"^(?=(shared|encoder|decoder)\.)", "model.")]
        uses = [name for name in self.ties if name in names]
        if SHARED in names or "model.encoder.embed_tokens.weight" in names or not uses:
            return ()
        return [(rf"^{uses[0]}$".replace(".", r"\."), SHARED)]

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.refuse_other_heads(self.class_name, others=(*OTHER_HEADS, "ForCausalLM"))
        settings.must_be("tie_word_embeddings", True)
        settings.must_be("static_position_embeddings", self.positions == "sinusoidal")
        pre_norm = self.norm_position == "pre"
        settings.must_be("normalize_before", pre_norm)
        settings.must_be("normalize_embedding", self.embedding_norm)
        settings.must_be("add_final_layer_norm", pre_norm)
        settings.must_be("add_bias_logits", False)
        settings.unused("encoder_layerdrop", "decoder_layerdrop", "num_hidden_layers", "extra_pos_embeddings")
        settings.unused(
            "classifier_dropout", "classif_dropout", "force_bos_token_to_be_generated", "save_step"
        )
        settings.unused("max_length_of_pairs", "gradient_checkpointing", "static_embeddings")
        settings.unused("is_decoder")  # transformers sets it for each side
        if self.one_embedding:  # transformers reads neither of these settings
            settings.must_be("share_encoder_decoder_embeddings", True)
            settings.must_be("decoder_vocab_size")
        shared = take(bool, "share_encoder_decoder_embeddings", default=True)
        vocab_size = take(int, "vocab_size")
        tgt_vocab_size = take(int, "decoder_vocab_size", default=vocab_size)
        ids = self.token_ids
        pad_id = settings.token_or("pad_token_id", min(vocab_size, tgt_vocab_size), ids.get("pad"))
        start_id = settings.token_or("decoder_start_token_id", tgt_vocab_size, ids.get("decoder_start"))
        eos_id = settings.token_or("eos_token_id", tgt_vocab_size, ids.get("eos"))
        config = EncoderDecoderConfig(
            src_vocab_size=vocab_size,
            tgt_vocab_size=tgt_vocab_size if not shared else vocab_size,
            d_model=take(int, "d_model"),
            num_heads=_both(settings, "attention_heads"),
            num_encoder_layers=take(int, "encoder_layers"),
            num_decoder_layers=take(int, "decoder_layers"),
            d_ff=_both(settings, "ffn_dim"),
            activation=settings.choice(ACTIVATION_NAMES, "activation_function", default=self.activation),  # type: ignore[arg-type]
            positions=self.positions,  # type: ignore[arg-type]
            norm_position=self.norm_position,  # type: ignore[arg-type]
            position_layout=self.layout,  # type: ignore[arg-type]
            position_offset=self.position_offset(pad_id),
            max_positions=take(int, "max_position_embeddings", default=1024),
            scaled_embedding=take(bool, "scale_embedding", default=self.scaled_embedding),
            embedding_norm=self.embedding_norm,
            output_bias=self.output_bias and "final_logits_bias" in names,
            tied="all" if shared else "target",
            dropout=take(float, "dropout", default=0.1),
            attention_dropout=take(float, "attention_dropout", default=self.attention_dropout),
            activation_dropout=take(float, "activation_dropout", default=0.0),
            pad_id=0 if pad_id is None else pad_id,
        )
        return ConvertedConfig(
            config=config,
            start_id=pad_id if start_id is None else start_id,
            pad_id=pad_id,
            eos_id=eos_id,
            prefix=self.prefix(settings, vocab_size),
        )

    def position_offset(self, pad_id: int | None) -> int:
        """The number of the first position."""
        return self.offset

    def fixed_tensors(self, config: EncoderDecoderConfig) -> Mapping[str, Tensor]:
        """The sinusoids, which transformers stores like learned positions."""
        if self.positions != "sinusoidal":
            return {}
        table = sinusoids(
            config.position_offset, config.max_positions, config.d_model, config.position_layout
        )
        return {f"model.{side}.embed_positions.weight": table for side in STACKS}

    def prefix(self, settings: ConfigReader, vocab_size: int) -> tuple[int, ...]:
        """The ids before every text."""
        return ()

    def write(self, config: EncoderDecoderConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": [self.class_name],
            "is_encoder_decoder": True,
            "vocab_size": config.src_vocab_size,
            "d_model": config.d_model,
            **{f"{side}_attention_heads": config.num_heads for side in STACKS},
            **{f"{side}_ffn_dim": config.d_ff for side in STACKS},
            "encoder_layers": config.num_encoder_layers,
            "decoder_layers": config.num_decoder_layers,
            "num_hidden_layers": config.num_encoder_layers,
            "activation_function": activation_name(config.activation),
            "max_position_embeddings": config.max_positions,
            "scale_embedding": config.scaled_embedding,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": config.activation_dropout,
            "pad_token_id": config.pad_id,
            "tie_word_embeddings": True,
            **self.separate(config),
        }

    def separate(self, config: EncoderDecoderConfig) -> dict[str, Any]:
        """The settings for separate embeddings of the two sides."""
        if self.one_embedding:
            return {}
        shared = config.tied == "all"
        return {"share_encoder_decoder_embeddings": shared, "decoder_vocab_size": config.tgt_vocab_size}

    def special_token_ids(
        self, config: EncoderDecoderConfig, special_tokens: Mapping[str, int]
    ) -> dict[str, Any]:
        """As `Family.special_token_ids`; the output always ends with eos."""
        start, end = special_tokens["bos_token_id"], special_tokens["eos_token_id"]
        return {
            "pad_token_id": special_tokens["pad_token_id"],
            "eos_token_id": end,
            "decoder_start_token_id": start,
            "forced_eos_token_id": end,
        }

    def in_family_form(
        self, config: EncoderDecoderConfig, tensors: Mapping[str, Tensor]
    ) -> tuple[EncoderDecoderConfig, Mapping[str, Tensor]]:
        """Adds zero biases if the model has none, and converts interleaved positions."""
        if self.positions == config.positions == "sinusoidal" and config.position_layout == "interleaved":
            config = dataclasses.replace(config, position_layout="split")
            tensors = split_layout(tensors, config.d_model)
        if self.output_bias and not config.output_bias:
            tensors = {**tensors, "output.bias": torch.zeros(config.tgt_vocab_size)}
        return dataclasses.replace(config, output_bias=self.output_bias, bias=True), tensors

    def table(self, config: EncoderDecoderConfig) -> list[Entry]:
        entries = self.embeddings(config)
        for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
            for number in range(count):
                entries += block_table(
                    config, f"{side}.blocks.{number}", f"model.{side}.layers.{number}", side
                )
            if self.norm_position == "pre":
                entries += linear(f"{side}.norm", f"model.{side}.layer_norm")
        return entries

    def embeddings(self, config: EncoderDecoderConfig) -> list[Entry]:
        """Entries of the embeddings and the output bias."""
        if config.tied == "all":
            entries = [same("decoder.input.embedding.weight", SHARED)]
        else:
            entries = [
                same(f"{side}.input.embedding.weight", f"model.{side}.embed_tokens.weight") for side in STACKS
            ]
        if config.output_bias:
            shape = (1, config.tgt_vocab_size)
            entries.append(Entry(ours="output.bias", hf=("final_logits_bias",), shape=shape))
        return entries


class BART(Marian):
    """BART: Marian with learned positions from 2 on and normalised embeddings; texts begin with <s>."""

    name = "bart"
    class_name = "BartForConditionalGeneration"
    positions = "learned"
    offset = 2
    embedding_norm = True
    one_embedding = True
    special_tokens: ClassVar = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>", "mask": "<mask>"}
    buffers: ClassVar = (r"^model\.(encoder|decoder)\.version$",)

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        if not settings.architecture().endswith(("ForConditionalGeneration", "Model")):
            raise FolderError(
                f"{settings.where}: {settings.architecture() or 'its class'} is not supported",
                "only BartForConditionalGeneration and BartModel are",
            )
        return super().read(settings, names)

    def prefix(self, settings: ConfigReader, vocab_size: int) -> tuple[int, ...]:
        begin = settings.token("bos_token_id", vocab_size)
        return () if begin is None else (begin,)

    def special_token_ids(
        self, config: EncoderDecoderConfig, special_tokens: Mapping[str, int]
    ) -> dict[str, Any]:
        known = super().special_token_ids(config, special_tokens)
        return (
            {**known, "bos_token_id": special_tokens["first_token_id"]}
            if "first_token_id" in special_tokens
            else known
        )

    def embeddings(self, config: EncoderDecoderConfig) -> list[Entry]:
        entries = super().embeddings(config)
        for side in STACKS:
            entries.append(same(f"{side}.input.positions.weight", f"model.{side}.embed_positions.weight"))
            entries += linear(f"{side}.input.norm", f"model.{side}.layernorm_embedding")
        return entries


def _both(settings: ConfigReader, name: str) -> int:
    """A size that must be equal on both sides."""
    encoder, decoder = (settings.take(int, f"{side}_{name}") for side in STACKS)
    if encoder != decoder:
        raise FolderError(
            f"{settings.where}: encoder_{name} = {encoder}, decoder_{name} = {decoder}",
            "only models with equal sizes on both sides are supported",
        )
    return encoder


def block_table(config: TransformerConfig, ours: str, hf: str, side: str) -> list[Entry]:
    """The entries of a block of one side."""
    qkv = [f"{hf}.self_attn.{each}_proj" for each in "qkv"]
    entries = [
        *stacked_tensors(f"{ours}.self_attention.query_key_value", qkv, widths(config)),
        *linear(f"{ours}.self_attention.output", f"{hf}.self_attn.out_proj"),
        *linear(f"{ours}.around_self_attention.norm", f"{hf}.self_attn_layer_norm"),
        *linear(f"{ours}.feed_forward.inner", f"{hf}.fc1"),
        *linear(f"{ours}.feed_forward.outer", f"{hf}.fc2"),
        *linear(f"{ours}.around_feed_forward.norm", f"{hf}.final_layer_norm"),
    ]
    if side == "decoder":
        cross = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        for our_name, name in cross.items():
            entries += linear(f"{ours}.cross_attention.{our_name}", f"{hf}.encoder_attn.{name}")
        entries += linear(f"{ours}.around_cross_attention.norm", f"{hf}.encoder_attn_layer_norm")
    return entries
