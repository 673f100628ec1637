"""BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019) and sentence encoders (Reimers et al. 2019)."""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.errors import FolderError
from regard.models.encoder_only import EncoderOnlyConfig, Head
from regard.weights.families.family import (
    ACTIVATION_NAMES,
    ConfigReader,
    ConvertedConfig,
    Family,
    activation_name,
    widths,
)
from regard.weights.families.sentence import MODULES, sentence_files, sentence_settings
from regard.weights.names import Entry, linear, same, stacked_tensors

HEADS: Mapping[str, Head] = {  # suffixes of the class names of transformers
    "ForMaskedLM": "masked_language_model",
    "ForPreTraining": "masked_language_model",
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "tokens",
    "ForQuestionAnswering": "spans",
}
# settings pooler_* of some config.json, which no code reads
POOLER = ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")


def head_of(architecture: str, class_prefix: str, heads: Mapping[str, Head] = HEADS) -> Head:
    """The head of a class of transformers; "pooled" for a class without one."""
    for suffix, head in heads.items():
        if architecture.endswith(suffix):
            return head
    if architecture not in ("", f"{class_prefix}Model"):
        raise FolderError(
            f"the head of class {architecture} is not supported",
            f"use {class_prefix}Model, or a class that ends in {', '.join(heads)}",
        )
    return "pooled"


def class_name(prefix: str, head: Head, heads: Mapping[str, Head] = HEADS) -> str:
    """The class name of transformers for this head; of a class without one, for a head that there is not."""
    head = "classification" if head == "regression" else head
    return prefix + next((suffix for suffix, ours in heads.items() if ours == head), "Model")


def labelled(settings: ConfigReader, head: Head) -> tuple[Head, tuple[str, ...]]:
    """The head and the names of its classes; classification with one class is regression."""
    if head not in ("classification", "tokens"):
        return head, ()
    labels = settings.labels()
    if settings.table.get("problem_type") == "multi_label_classification":
        raise FolderError(
            f"{settings.where}: problem_type = 'multi_label_classification' is not supported",
            "only classification with one class per text is",
        )
    if head == "classification" and len(labels) == 1:
        return "regression", ()
    return head, labels


def label_table(config: EncoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
    """The settings of config.json for the classes."""
    count = 1 if config.head == "regression" else config.num_labels
    names = list(labels) or [f"LABEL_{number}" for number in range(count)]
    if not count:
        return {}
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


class BERT(Family):
    """BERT: post-norm, learned positions, token types, normalised embeddings, exact gelu."""

    name = "bert"
    config = EncoderOnlyConfig
    prefix = "bert"
    class_prefix = "Bert"
    special_tokens: ClassVar = {
        "pad": "[PAD]",
        "unk": "[UNK]",
        "bos": "[CLS]",
        "eos": "[SEP]",
        "mask": "[MASK]",
    }
    renames: ClassVar = (
        (r"LayerNorm\.gamma$", "LayerNorm.weight"),
        (r"LayerNorm\.beta$", "LayerNorm.bias"),
    )
    buffers: ClassVar = (r"embeddings\.(position_ids|token_type_ids)$",)
    ties: ClassVar = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    heads: ClassVar[Mapping[str, Head]] = HEADS
    has_token_types: ClassVar[bool] = True
    offset = 0  # the row of the first position in the position table
    default_pad = 0  # the padding id of a config.json that names none
    unused: ClassVar[Mapping[str, tuple[str, ...]]] = {  # head -> patterns of unused tensors
        "masked_language_model": (r"^bert\.pooler\.", r"^cls\.seq_relationship\."),
        "tokens": (r"^bert\.pooler\.",),
        "spans": (r"^bert\.pooler\.",),
        "pooled": (r"^cls\.",),
        "none": (r"^cls\.", r"^bert\.pooler\."),
    }

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """Adds the prefix of models without a head, which lack it."""
        return [(r"^(?=(embeddings|encoder|transformer|pooler)\.)", f"{self.prefix}.")]

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.must_be("position_embedding_type", "absolute")
        settings.must_be("is_decoder", False)  # it would attend causally
        settings.must_be("add_cross_attention", False)
        settings.must_be("tie_word_embeddings", True)
        settings.unused(*(f"pooler_{each}" for each in POOLER), "directionality", "model_max_length")
        head, labels = labelled(settings, head_of(settings.architecture(), self.class_prefix, self.heads))
        if head == "pooled" and f"{self.prefix}.pooler.dense.weight" not in names:
            head = "none"
        vocab_size = take(int, "vocab_size")
        activation = settings.choice(ACTIVATION_NAMES, "hidden_act", default="gelu")
        pad_id = settings.token("pad_token_id", vocab_size)
        config = EncoderOnlyConfig(
            vocab_size=vocab_size,
            head=head,
            num_labels=len(labels),
            fresh_head=False,
            d_model=take(int, "hidden_size"),
            num_heads=take(int, "num_attention_heads"),
            num_layers=take(int, "num_hidden_layers"),
            d_ff=take(int, "intermediate_size"),
            norm_eps=take(float, "layer_norm_eps", default=1e-12),
            activation=activation,  # type: ignore[arg-type]
            head_activation=self.head_activation(head, activation),  # type: ignore[arg-type]
            embedding_size=self.embedding_size(settings),
            max_positions=take(int, "max_position_embeddings", default=512) - self.offset,
            position_offset=self.offset,
            num_token_types=take(int, "type_vocab_size", default=2),
            dropout=take(float, "hidden_dropout_prob", default=0.1),
            attention_dropout=take(float, "attention_probs_dropout_prob", default=0.1),
            head_dropout=take(float, "classifier_dropout", "hidden_dropout_prob", default=0.1),
            pad_id=self.default_pad if pad_id is None else pad_id,
        )
        return ConvertedConfig(config=config, labels=labels, pad_id=pad_id, unused=self.unused.get(head, ()))

    def embedding_size(self, settings: ConfigReader) -> int | None:
        """The width of the embeddings; None for that of the states."""
        return None

    def head_activation(self, head: Head, activation: str) -> str | None:
        """The activation of the masked language model's head; None for other heads, which have tanh."""
        return activation if head == "masked_language_model" else None

    def with_other_files(self, described: ConvertedConfig, folder: Path) -> ConvertedConfig:
        """Adds the pooling of a sentence-transformers folder."""
        if not os.path.isfile(folder / MODULES) or not isinstance(described.config, EncoderOnlyConfig):
            return described
        config = dataclasses.replace(
            described.config, head="pooled", pooler=False, **sentence_settings(folder)
        )
        return dataclasses.replace(described, config=config, unused=self.unused["none"])

    def write(self, config: EncoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": [class_name(self.class_prefix, config.head, self.heads)],
            "vocab_size": config.vocab_size,
            "hidden_size": config.d_model,
            "num_attention_heads": config.num_heads,
            "num_hidden_layers": config.num_layers,
            "intermediate_size": config.d_ff,
            "layer_norm_eps": 1e-5 if config.norm_eps is None else config.norm_eps,
            "hidden_act": activation_name(config.activation),
            "max_position_embeddings": config.max_positions + self.offset,
            "type_vocab_size": config.num_token_types,
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
            "classifier_dropout": config.head_dropout,
            "pad_token_id": config.pad_id,
            "tie_word_embeddings": True,
            **label_table(config, labels),
        }

    def in_family_form(
        self, config: EncoderOnlyConfig, tensors: Mapping[str, Tensor]
    ) -> tuple[EncoderOnlyConfig, Mapping[str, Tensor]]:
        """A sentence encoder without its pooling, which another file has; a zero token type if needed."""
        if self.has_token_types and not config.num_token_types:
            config = dataclasses.replace(config, num_token_types=1)
            types = {"encoder.input.token_types.weight": torch.zeros(1, config.d_model)}
            tensors = {**tensors, **types}
        if config.head == "pooled" and not config.pooler:
            config = dataclasses.replace(config, head="none", pooling="cls", pooler=True, normalised=False)
        return config, tensors

    def other_files(self, config: EncoderOnlyConfig) -> dict[str, bytes]:
        if config.head != "pooled" or config.pooler:
            return {}
        return sentence_files(config)

    def table(self, config: EncoderOnlyConfig) -> list[Entry]:
        embeddings = f"{self.prefix}.embeddings"
        entries = [
            same("encoder.input.embedding.weight", f"{embeddings}.word_embeddings.weight"),
            same("encoder.input.positions.weight", f"{embeddings}.position_embeddings.weight"),
            same("encoder.input.token_types.weight", f"{embeddings}.token_type_embeddings.weight"),
            *linear("encoder.input.norm", f"{embeddings}.LayerNorm"),
        ]
        for number in range(config.num_layers):
            ours, hf = f"encoder.blocks.{number}", f"{self.prefix}.encoder.layer.{number}"
            qkv = [f"{hf}.attention.self.{each}" for each in ("query", "key", "value")]
            entries += [
                *stacked_tensors(f"{ours}.self_attention.query_key_value", qkv, widths(config)),
                *linear(f"{ours}.self_attention.output", f"{hf}.attention.output.dense"),
                *linear(f"{ours}.around_self_attention.norm", f"{hf}.attention.output.LayerNorm"),
                *linear(f"{ours}.feed_forward.inner", f"{hf}.intermediate.dense"),
                *linear(f"{ours}.feed_forward.outer", f"{hf}.output.dense"),
                *linear(f"{ours}.around_feed_forward.norm", f"{hf}.output.LayerNorm"),
            ]
        return entries + self.head_table(config)

    def head_table(self, config: EncoderOnlyConfig) -> list[Entry]:
        match config.head:
            case "pooled" if config.pooler:
                return linear("head.layer", f"{self.prefix}.pooler.dense")
            case "masked_language_model":
                return [
                    *linear("head.transform", "cls.predictions.transform.dense"),
                    *linear("head.norm", "cls.predictions.transform.LayerNorm"),
                    same("head.output.bias", "cls.predictions.bias"),
                ]
            case "classification" | "regression":
                pooler = linear("head.pooler.layer", f"{self.prefix}.pooler.dense")
                return [*pooler, *linear("head.output", "classifier")]
            case "tokens":
                return linear("head.output", "classifier")
            case "spans":
                return linear("head.output", "qa_outputs")
        return []


class RoBERTa(BERT):
    """RoBERTa: BERT with positions from 2 on and another classification head."""

    name = "roberta"
    prefix = "roberta"
    class_prefix = "Roberta"
    special_tokens: ClassVar = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}
    ties: ClassVar = {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }
    offset = 2
    default_pad = 1
    unused: ClassVar = {
        **dict.fromkeys(
            ("masked_language_model", "classification", "regression", "tokens", "spans"),
            (r"^roberta\.pooler\.",),
        ),
        "pooled": (r"^lm_head\.",),
        "none": (r"^lm_head\.", r"^roberta\.pooler\."),
    }

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        settings.must_be("pad_token_id", 1)  # positions are counted from it
        return super().read(settings, names)

    def head_activation(self, head: Head, activation: str) -> str | None:
        return None  # always gelu for masked language models, tanh for other heads

    def head_table(self, config: EncoderOnlyConfig) -> list[Entry]:
        match config.head:
            case "masked_language_model":
                return [
                    *linear("head.transform", "lm_head.dense"),
                    *linear("head.norm", "lm_head.layer_norm"),
                    same("head.output.bias", "lm_head.bias"),
                ]
            case "classification" | "regression":
                layer = linear("head.pooler.layer", "classifier.dense")
                return [*layer, *linear("head.output", "classifier.out_proj")]
        return super().head_table(config)


class XLMRoberta(RoBERTa):
    """XLM-RoBERTa (Conneau et al. 2020): RoBERTa for a hundred languages, whose folders have another name."""

    name = "xlm-roberta"
    class_prefix = "XLMRoberta"
