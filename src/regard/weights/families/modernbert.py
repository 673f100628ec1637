"""ModernBERT (Warner et al. 2024)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from regard.errors import FolderError
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.families.bert import BERT, class_name, head_of, label_table, labelled
from regard.weights.families.family import ACTIVATION_NAMES, ConfigReader, ConvertedConfig
from regard.weights.families.layer_types import (
    FULL,
    SLIDING,
    read_layer_types,
    window_settings,
    written_layer_types,
)
from regard.weights.families.llama import GATED
from regard.weights.families.rotary import layered_rotary, read_rotary_by_type, write_rotary_by_type
from regard.weights.names import Entry, linear, same

BASES = ("global_rope_theta", "local_rope_theta")
POOLINGS = {"cls": "cls", "mean": "mean"}
HEAD_ACTIVATIONS = {**ACTIVATION_NAMES, "tanh": "tanh"}


class ModernBERT(BERT):
    """ModernBERT: pre-norm, rotary positions, GEGLU, windows in most layers, a layer and a norm in each head.

    Its dropout of embeddings is taken for those of all sub-layers; both are 0 in the published models.
    """

    name = "modernbert"
    prefix = "model"
    class_prefix = "ModernBert"
    has_token_types: ClassVar = False
    ties: ClassVar = {"decoder.weight": "model.embeddings.tok_embeddings.weight"}
    unused: ClassVar = {"none": (r"^head\.", r"^decoder\.")}

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        return [(r"^(?=(embeddings|layers|final_norm)\.)", "model.")]

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.must_be("position_embedding_type", "absolute")  # of older files, which means nothing
        settings.must_be("is_decoder", False)
        settings.must_be("tie_word_embeddings", True)
        settings.must_be("decoder_bias", True)
        settings.unused(*IDLE)
        head, labels = labelled(settings, head_of(settings.architecture(), self.class_prefix))
        head = "none" if head == "pooled" else head
        vocab_size, d_model = take(int, "vocab_size", default=50368), take(int, "hidden_size", default=768)
        num_heads = take(int, "num_attention_heads", default=12)
        norm_eps = take(float, "norm_eps", default=1e-5)
        settings.must_be("layer_norm_eps", norm_eps)  # of older files; transformers does not read it
        max_positions = take(int, "max_position_embeddings", default=8192)
        pad_id = settings.token_or("pad_token_id", vocab_size, 50283)
        windows = self.windows(settings, take(int, "num_hidden_layers", default=22))
        config = EncoderOnlyConfig(
            vocab_size=vocab_size,
            head=head,
            num_labels=len(labels),
            fresh_head=False,
            d_model=d_model,
            num_heads=num_heads,
            num_layers=take(int, "num_hidden_layers", default=22),
            d_ff=take(int, "intermediate_size", default=1152),
            norm_eps=norm_eps,
            norm_position="pre",
            activation=settings.choice(GATED, "hidden_activation", default="gelu"),  # type: ignore[arg-type]
            bias=take(bool, "norm_bias", default=False),
            attention_bias="all" if take(bool, "attention_bias", default=False) else "none",
            feed_forward_bias=take(bool, "mlp_bias", default=False),
            max_positions=max_positions,
            num_token_types=0,
            first_norm=False,
            dropout=take(float, "embedding_dropout", default=0.0),
            attention_dropout=take(float, "attention_dropout", default=0.0),
            activation_dropout=take(float, "mlp_dropout", default=0.0),
            pad_id=0 if pad_id is None else pad_id,
            head_activation=settings.choice(HEAD_ACTIVATIONS, "classifier_activation", default="gelu"),  # type: ignore[arg-type]
            head_bias=take(bool, "classifier_bias", default=False),
            head_norm=True,
            head_dropout=take(float, "classifier_dropout", default=0.0),
            pooling=settings.choice(POOLINGS, "classifier_pooling", default="cls"),  # type: ignore[arg-type]
            **windows,
            **self.rotary(settings, max_positions, d_model // max(1, num_heads), windows),
        )
        return ConvertedConfig(config=config, labels=labels, pad_id=pad_id, unused=self.unused.get(head, ()))

    def windows(self, settings: ConfigReader, num_layers: int) -> dict[str, Any]:
        """Which layers have a sliding window, as our settings; theirs has half of it on each side."""
        every = settings.take(int, "global_attn_every_n_layers", default=3)
        if every < 1:
            raise FolderError(
                f"{settings.where}: global_attn_every_n_layers = {every} is below 1", "3 is usual"
            )
        usual = [SLIDING if number % every else FULL for number in range(num_layers)]
        window = settings.take(int, "local_attention", default=128) // 2 + 1
        return window_settings(settings, read_layer_types(settings, usual), window)

    def rotary(
        self, settings: ConfigReader, max_positions: int, d_head: int, windows: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Rotary positions, as our settings."""
        settings.must_be("rope_scaling")  # it would scale those of windows too
        full, local = read_rotary_by_type(settings, max_positions, bases=BASES, usual=(160_000.0, 1e4))
        return layered_rotary(full, local, d_head, windows)

    def write(self, config: EncoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": [class_name(self.class_prefix, config.head)],
            "vocab_size": config.vocab_size,
            "hidden_size": config.d_model,
            "num_attention_heads": config.num_heads,
            "num_hidden_layers": config.num_layers,
            "intermediate_size": config.d_ff,
            "norm_eps": 1e-5 if config.norm_eps is None else config.norm_eps,
            "hidden_activation": next((hf for hf, own in GATED.items() if own == config.activation), "gelu"),
            "norm_bias": config.bias,
            "attention_bias": config.attention_biases == "all",
            "mlp_bias": config.has_feed_forward_bias,
            "max_position_embeddings": config.position_limit or config.max_positions,
            "local_attention": 128 if config.window is None else 2 * (config.window - 1),
            "layer_types": written_layer_types(config),
            "embedding_dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "mlp_dropout": config.activation_dropout,
            "classifier_dropout": config.head_dropout,
            "classifier_bias": config.head_bias,
            "classifier_activation": self.written_activation(config),
            "classifier_pooling": config.pooling,
            "decoder_bias": True,
            "pad_token_id": config.pad_id,
            "tie_word_embeddings": True,
            **write_rotary_by_type(config, BASES),
            **label_table(config, labels),
        }

    def written_activation(self, config: EncoderOnlyConfig) -> str:
        """The name of the head's activation."""
        usual = "gelu" if config.head == "masked_language_model" else "tanh"
        ours = config.head_activation or usual
        return next(name for name, own in HEAD_ACTIVATIONS.items() if own == ours)

    def table(self, config: EncoderOnlyConfig) -> list[Entry]:
        norm_bias, attention, network = (
            config.bias,
            config.attention_biases == "all",
            config.has_feed_forward_bias,
        )
        entries = [
            same("encoder.input.embedding.weight", "model.embeddings.tok_embeddings.weight"),
            *linear("encoder.input.norm", "model.embeddings.norm", bias=norm_bias),
            *linear("encoder.norm", "model.final_norm", bias=norm_bias),
        ]
        for number in range(config.num_layers):
            ours, hf = f"encoder.blocks.{number}", f"model.layers.{number}"
            if number or config.first_norm:
                entries += linear(f"{ours}.around_self_attention.norm", f"{hf}.attn_norm", bias=norm_bias)
            entries += [
                *linear(f"{ours}.self_attention.query_key_value", f"{hf}.attn.Wqkv", bias=attention),
                *linear(f"{ours}.self_attention.output", f"{hf}.attn.Wo", bias=attention),
                *linear(f"{ours}.around_feed_forward.norm", f"{hf}.mlp_norm", bias=norm_bias),
                *linear(f"{ours}.feed_forward.gate_inner", f"{hf}.mlp.Wi", bias=network),
                *linear(f"{ours}.feed_forward.outer", f"{hf}.mlp.Wo", bias=network),
            ]
        return entries + self.head_table(config)

    def head_table(self, config: EncoderOnlyConfig) -> list[Entry]:
        if config.head in ("none", "pooled"):
            return []
        layer, norm = {
            "masked_language_model": ("head.transform", "head.norm"),
            "tokens": ("head.transform.layer", "head.transform.norm"),
            "spans": ("head.transform.layer", "head.transform.norm"),
        }.get(config.head, ("head.pooler.layer", "head.pooler.norm"))
        entries = [
            *linear(layer, "head.dense", bias=config.head_bias),
            *linear(norm, "head.norm", bias=config.bias),
        ]
        if config.head == "masked_language_model":
            return [*entries, same("head.output.bias", "decoder.bias")]
        return [*entries, *linear("head.output", "classifier")]


IDLE = (
    "cls_token_id",
    "deterministic_flash_attn",
    "initializer_cutoff_factor",
    "reference_compile",
    "repad_logits_with_grad",
    "sparse_pred_ignore_index",
    "sparse_prediction",
)
