"""Marian (Junczys-Dowmunt et al. 2018; OPUS-MT) and BART (Lewis et al. 2020)."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.errors import FolderError
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.bert import ACTIVATIONS
from regard.weights.families.family import ConfigReader, ConvertedConfig, Family, activation_name, widths
from regard.weights.families.interleaved import split_layout
from regard.weights.names import Entry, linear, same, stacked

SHARED = "model.shared.weight"


class Marian(Family):
    """Post-norm, sinusoids with all sines first, embeddings scaled, a bias for each token of the target."""

    name = "marian"
    config = EncoderDecoderConfig
    class_name = "MarianMTModel"
    positions = "sinusoidal"
    offset = 0
    normed = False  # a norm of the embeddings
    marks: ClassVar = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    ties: ClassVar = {
        "model.encoder.embed_tokens.weight": SHARED,
        "model.decoder.embed_tokens.weight": SHARED,
        "lm_head.weight": SHARED,
    }
    empty: ClassVar = (r"^model\.(encoder|decoder)\.embed_positions\.weight$",)

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """A model without a head has bare names; the one embedding may have that of any of its uses alone."""
        if "encoder.layers.0.fc1.weight" in names:
            return [(r"^(?=(shared|encoder|decoder)\.)", "model.")]
        uses = [name for name in self.ties if name in names]
        if SHARED in names or "model.encoder.embed_tokens.weight" in names or not uses:
            return ()
        return [(rf"^{uses[0]}$".replace(".", r"\."), SHARED)]

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.must_be("tie_word_embeddings", True)
        settings.must_be("static_position_embeddings", self.positions == "sinusoidal")
        settings.must_be("normalize_before", False)
        settings.must_be("normalize_embedding", self.normed)
        settings.must_be("add_final_layer_norm", False)
        settings.must_be("add_bias_logits", False)
        settings.unused("encoder_layerdrop", "decoder_layerdrop", "num_hidden_layers", "extra_pos_embeddings")
        settings.unused(
            "classifier_dropout", "classif_dropout", "force_bos_token_to_be_generated", "save_step"
        )
        settings.unused("max_length_of_pairs", "gradient_checkpointing", "static_embeddings")
        settings.unused("is_decoder")  # of each side transformers says it itself
        shared = take(bool, "share_encoder_decoder_embeddings", default=True)
        vocab_size = take(int, "vocab_size")
        tgt_vocab_size = take(int, "decoder_vocab_size", default=vocab_size)
        pad_id = settings.token("pad_token_id", min(vocab_size, tgt_vocab_size))
        start_id = settings.token("decoder_start_token_id", tgt_vocab_size)
        eos_id = settings.token("eos_token_id", tgt_vocab_size)
        config = EncoderDecoderConfig(
            src_vocab_size=vocab_size,
            tgt_vocab_size=tgt_vocab_size if not shared else vocab_size,
            d_model=take(int, "d_model"),
            num_heads=_both(settings, "attention_heads"),
            num_encoder_layers=take(int, "encoder_layers"),
            num_decoder_layers=take(int, "decoder_layers"),
            d_ff=_both(settings, "ffn_dim"),
            activation=settings.choice(ACTIVATIONS, "activation_function", default="gelu"),  # type: ignore[arg-type]
            positions=self.positions,  # type: ignore[arg-type]
            position_layout="split",
            position_offset=self.offset,
            max_positions=take(int, "max_position_embeddings", default=1024),
            scaled_embedding=take(bool, "scale_embedding", default=False),
            embedding_norm=self.normed,
            output_bias="final_logits_bias" in names,
            tied="all" if shared else "target",
            dropout=take(float, "dropout", default=0.1),
            attention_dropout=take(float, "attention_dropout", default=0.0),
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

    def prefix(self, settings: ConfigReader, vocab_size: int) -> tuple[int, ...]:
        return ()

    def write(self, config: EncoderDecoderConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": [self.class_name],
            "is_encoder_decoder": True,
            "vocab_size": config.src_vocab_size,
            "d_model": config.d_model,
            **{f"{side}_attention_heads": config.num_heads for side in SIDES},
            **{f"{side}_ffn_dim": config.d_ff for side in SIDES},
            "encoder_layers": config.num_encoder_layers,
            "decoder_layers": config.num_decoder_layers,
            "num_hidden_layers": config.num_encoder_layers,
            "activation_function": activation_name(ACTIVATIONS, config.activation),
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
        """What says whether the two sides share their embedding."""
        shared = config.tied == "all"
        return {"share_encoder_decoder_embeddings": shared, "decoder_vocab_size": config.tgt_vocab_size}

    def marks_of(self, config: EncoderDecoderConfig, marks: Mapping[str, int]) -> dict[str, Any]:
        """As `Family.marks_of`; a search ends with the end, whatever it says."""
        start, end = marks["bos_token_id"], marks["eos_token_id"]
        return {
            "pad_token_id": marks["pad_token_id"],
            "eos_token_id": end,
            "decoder_start_token_id": start,
            "forced_eos_token_id": end,
        }

    def adapted(
        self, config: EncoderDecoderConfig, tensors: Mapping[str, Tensor]
    ) -> tuple[EncoderDecoderConfig, Mapping[str, Tensor]]:
        """Biases of zero say what none say; features may be in another order."""
        if self.positions == config.positions == "sinusoidal" and config.position_layout == "interleaved":
            config = dataclasses.replace(config, position_layout="split")
            tensors = split_layout(tensors, config.d_model)
        if not config.output_bias:
            tensors = {**tensors, "output.bias": torch.zeros(config.tgt_vocab_size)}
        return dataclasses.replace(config, output_bias=True, bias=True), tensors

    def table(self, config: EncoderDecoderConfig) -> list[Entry]:
        entries = self.embeddings(config)
        for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
            for number in range(count):
                entries += _block(config, f"{side}.blocks.{number}", f"model.{side}.layers.{number}", side)
        return entries

    def embeddings(self, config: EncoderDecoderConfig) -> list[Entry]:
        """Everything that is in no block."""
        if config.tied == "all":
            entries = [same("decoder.input.embedding.weight", SHARED)]
        else:
            entries = [
                same(f"{side}.input.embedding.weight", f"model.{side}.embed_tokens.weight") for side in SIDES
            ]
        if config.output_bias:
            shape = (1, config.tgt_vocab_size)
            entries.append(Entry(ours="output.bias", theirs=("final_logits_bias",), shape=shape))
        return entries


class BART(Marian):
    """As Marian with learned positions from 2 on and a norm of the embeddings; a text begins with <s>."""

    name = "bart"
    class_name = "BartForConditionalGeneration"
    positions = "learned"
    offset = 2
    normed = True
    marks: ClassVar = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>", "mask": "<mask>"}
    empty: ClassVar = (r"^model\.(encoder|decoder)\.version$",)

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

    def marks_of(self, config: EncoderDecoderConfig, marks: Mapping[str, int]) -> dict[str, Any]:
        known = super().marks_of(config, marks)
        return {**known, "bos_token_id": marks["first_token_id"]} if "first_token_id" in marks else known

    def separate(self, config: EncoderDecoderConfig) -> dict[str, Any]:
        return {}

    def embeddings(self, config: EncoderDecoderConfig) -> list[Entry]:
        entries = super().embeddings(config)
        for side in SIDES:
            entries.append(same(f"{side}.input.positions.weight", f"model.{side}.embed_positions.weight"))
            entries += linear(f"{side}.input.norm", f"model.{side}.layernorm_embedding")
        return entries


SIDES = ("encoder", "decoder")


def _both(settings: ConfigReader, name: str) -> int:
    """A size that both sides share."""
    there = [settings.take(int, f"{side}_{name}") for side in SIDES]
    if there[0] != there[1]:
        raise FolderError(
            f"{settings.where}: encoder_{name} = {there[0]}, decoder_{name} = {there[1]}",
            "only models whose two sides are equally wide are supported",
        )
    return there[0]


def _block(config: EncoderDecoderConfig, ours: str, theirs: str, side: str) -> list[Entry]:
    qkv = [f"{theirs}.self_attn.{each}_proj" for each in "qkv"]
    entries = [
        *stacked(f"{ours}.self_attention.query_key_value", qkv, widths(config)),
        *linear(f"{ours}.self_attention.output", f"{theirs}.self_attn.out_proj"),
        *linear(f"{ours}.around_self_attention.norm", f"{theirs}.self_attn_layer_norm"),
        *linear(f"{ours}.feed_forward.inner", f"{theirs}.fc1"),
        *linear(f"{ours}.feed_forward.outer", f"{theirs}.fc2"),
        *linear(f"{ours}.around_feed_forward.norm", f"{theirs}.final_layer_norm"),
    ]
    if side == "decoder":
        cross = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        for mine, name in cross.items():
            entries += linear(f"{ours}.cross_attention.{mine}", f"{theirs}.encoder_attn.{name}")
        entries += linear(f"{ours}.around_cross_attention.norm", f"{theirs}.encoder_attn_layer_norm")
    return entries
