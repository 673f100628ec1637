"""DistilBERT (Sanh et al. 2019)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.families.bert import BERT, class_name, head_of, label_table, labelled
from regard.weights.families.family import (
    ACTIVATION_NAMES,
    ConfigReader,
    ConvertedConfig,
    activation_name,
    widths,
)
from regard.weights.names import Entry, linear, same, stacked_tensors

# head -> its dropout in config.json and the default of transformers
HEAD_DROPOUT: Mapping[str, tuple[str, float]] = {"tokens": ("dropout", 0.1), "spans": ("qa_dropout", 0.1)}
CLASS_DROPOUT = ("seq_classif_dropout", 0.2)  # of the other heads


class DistilBERT(BERT):
    """DistilBERT: BERT without token types and pooler; its classification head has a relu layer."""

    name = "distilbert"
    prefix = "distilbert"
    class_prefix = "DistilBert"
    has_token_types: ClassVar = False
    ties: ClassVar = {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}
    unused: ClassVar = dict.fromkeys(
        ("classification", "regression", "tokens", "spans", "none"), (r"^vocab_",)
    )

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.must_be("is_decoder", False)
        settings.must_be("tie_word_embeddings", True)
        settings.must_be("tie_weights_", True)
        # sinusoidal positions are a table in the file, like learned ones; dropout changes no output
        settings.unused("sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout")
        head, labels = labelled(settings, head_of(settings.architecture(), self.class_prefix))
        head = "none" if head == "pooled" else head  # there is no pooler
        head_dropout, default_dropout = HEAD_DROPOUT.get(head, CLASS_DROPOUT)
        activation = settings.choice(ACTIVATION_NAMES, "activation", default="gelu")
        vocab_size = take(int, "vocab_size")
        head_activations: dict[str, Any] = {
            "classification": "relu",
            "regression": "relu",
            "masked_language_model": activation,
        }
        pad_id = settings.token("pad_token_id", vocab_size)
        config = EncoderOnlyConfig(
            vocab_size=vocab_size,
            head=head,
            num_labels=len(labels),
            fresh_head=False,
            d_model=take(int, "dim", "hidden_size"),
            num_heads=take(int, "n_heads", "num_attention_heads"),
            num_layers=take(int, "n_layers", "num_hidden_layers"),
            d_ff=take(int, "hidden_dim"),
            norm_eps=1e-12,  # not a setting of DistilBERT
            activation=activation,  # type: ignore[arg-type]
            head_activation=head_activations.get(head),
            max_positions=take(int, "max_position_embeddings", default=512),
            num_token_types=0,
            dropout=take(float, "dropout", default=0.1),
            attention_dropout=take(float, "attention_dropout", default=0.1),
            head_dropout=take(float, head_dropout, default=default_dropout),
            pad_id=pad_id or 0,
        )
        return ConvertedConfig(config=config, labels=labels, pad_id=pad_id, unused=self.unused.get(head, ()))

    def write(self, config: EncoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": [class_name(self.class_prefix, config.head)],
            "vocab_size": config.vocab_size,
            "dim": config.d_model,
            "n_heads": config.num_heads,
            "n_layers": config.num_layers,
            "hidden_dim": config.d_ff,
            "activation": activation_name(config.activation),
            "max_position_embeddings": config.max_positions,
            HEAD_DROPOUT.get(config.head, CLASS_DROPOUT)[0]: config.head_dropout,
            "dropout": config.dropout,  # after the head's, which has no other dropout for token classes
            "attention_dropout": config.attention_dropout,
            "pad_token_id": config.pad_id,
            "tie_word_embeddings": True,
            **label_table(config, labels),
        }

    def table(self, config: EncoderOnlyConfig) -> list[Entry]:
        embeddings = "distilbert.embeddings"
        entries = [
            same("encoder.input.embedding.weight", f"{embeddings}.word_embeddings.weight"),
            same("encoder.input.positions.weight", f"{embeddings}.position_embeddings.weight"),
            *linear("encoder.input.norm", f"{embeddings}.LayerNorm"),
        ]
        for number in range(config.num_layers):
            ours, hf = f"encoder.blocks.{number}", f"distilbert.transformer.layer.{number}"
            qkv = [f"{hf}.attention.{part}_lin" for part in "qkv"]
            entries += [
                *stacked_tensors(f"{ours}.self_attention.query_key_value", qkv, widths(config)),
                *linear(f"{ours}.self_attention.output", f"{hf}.attention.out_lin"),
                *linear(f"{ours}.around_self_attention.norm", f"{hf}.sa_layer_norm"),
                *linear(f"{ours}.feed_forward.inner", f"{hf}.ffn.lin1"),
                *linear(f"{ours}.feed_forward.outer", f"{hf}.ffn.lin2"),
                *linear(f"{ours}.around_feed_forward.norm", f"{hf}.output_layer_norm"),
            ]
        return entries + self.head_table(config)

    def head_table(self, config: EncoderOnlyConfig) -> list[Entry]:
        match config.head:
            case "masked_language_model":
                return [
                    *linear("head.transform", "vocab_transform"),
                    *linear("head.norm", "vocab_layer_norm"),
                    same("head.output.bias", "vocab_projector.bias"),
                ]
            case "classification" | "regression":
                return [*linear("head.pooler.layer", "pre_classifier"), *linear("head.output", "classifier")]
        return super().head_table(config)
