"""The vision transformer (Dosovitskiy et al. 2021), and DeiT (Touvron et al. 2021)."""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import FolderError
from regard.models.vision import VisionConfig
from regard.weights.families.family import (
    ACTIVATION_NAMES,
    ConfigReader,
    ConvertedConfig,
    Family,
    activation_name,
    widths,
)
from regard.weights.families.image_preprocessing import (
    DEIT,
    VIT,
    preprocessor_table,
    with_preprocessing,
)
from regard.weights.families.preprocessor import PREPROCESSOR, PROCESSOR, read_preprocessor
from regard.weights.names import Entry, linear, same, stacked_tensors
from regard.weights.strict_json import json_bytes


class ViT(Family):
    """ViT: pre-norm blocks over image patches and a class token, from which the classes are read."""

    name = "vit"
    config = VisionConfig
    processors: ClassVar = (VIT, DEIT)  # that folders name; the first is the family's own
    unused: ClassVar = (r"^(vit|deit)\.pooler\.",)
    architectures: ClassVar[Mapping[str, str | None]] = {"ViTForImageClassification": None}  # distillation

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        settings.must_be("qkv_bias", True)
        settings.unused("encoder_stride", "pooler_output_size", "pooler_act", "is_decoder")
        if settings.architecture() not in self.architectures:
            raise FolderError(
                f"{settings.where}: {settings.architecture() or 'the model'} has no classes",
                f"only {' and '.join(self.architectures)} can be read",
            )
        labels = settings.labels()
        config = VisionConfig(
            num_labels=len(labels),
            distillation=self.architectures[settings.architecture()],  # type: ignore[arg-type]
            image_size=take(int, "image_size", default=224),
            channels=take(int, "num_channels", default=3),
            patch_size=take(int, "patch_size", default=16),
            d_model=take(int, "hidden_size", default=768),
            num_heads=take(int, "num_attention_heads", default=12),
            num_layers=take(int, "num_hidden_layers", default=12),
            d_ff=take(int, "intermediate_size", default=3072),
            activation=settings.choice(ACTIVATION_NAMES, "hidden_act", default="gelu"),  # type: ignore[arg-type]
            norm_eps=take(float, "layer_norm_eps", default=1e-12),
            dropout=take(float, "hidden_dropout_prob", default=0.0),
            attention_dropout=take(float, "attention_probs_dropout_prob", default=0.0),
        )
        return ConvertedConfig(config=config, labels=labels, unused=self.unused)

    def with_other_files(self, described: ConvertedConfig, folder: Path) -> ConvertedConfig:
        """Adds how images are resized, cropped and scaled, from preprocessor_config.json, if it is there."""
        config = described.config
        assert isinstance(config, VisionConfig)
        if not any(os.path.isfile(folder / name) for name in (PREPROCESSOR, PROCESSOR)):
            return described
        settings = read_preprocessor(folder, "image_processor")
        config = with_preprocessing(config, config.image_size, settings, *self.processors)
        return dataclasses.replace(described, config=config)

    def write(self, config: VisionConfig, labels: Sequence[str]) -> dict[str, Any]:
        names = list(labels) or [f"LABEL_{number}" for number in range(config.num_labels)]
        return {
            "model_type": self.name,
            "architectures": [self.architecture(config)],
            "image_size": config.image_size,
            "num_channels": config.channels,
            "patch_size": config.patch_size,
            "hidden_size": config.d_model,
            "num_attention_heads": config.num_heads,
            "num_hidden_layers": config.num_layers,
            "intermediate_size": config.d_ff,
            "hidden_act": activation_name(config.activation),
            "layer_norm_eps": 1e-5 if config.norm_eps is None else config.norm_eps,
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
            "qkv_bias": True,
            "id2label": {str(number): name for number, name in enumerate(names)},
            "label2id": {name: number for number, name in enumerate(names)},
        }

    def architecture(self, config: VisionConfig) -> str:
        """The class of transformers; the first one for a model that it does not have."""
        known = [name for name, ours in self.architectures.items() if ours == config.distillation]
        return known[0] if known else next(iter(self.architectures))

    def other_files(self, config: VisionConfig) -> dict[str, bytes]:
        return {PREPROCESSOR: json_bytes(preprocessor_table(config, config.image_size, self.processors[0]))}

    def table(self, config: VisionConfig) -> list[Entry]:
        embeddings, width = f"{self.name}.embeddings", config.d_model
        projection = "patch_embeddings.projection"
        pixels = (width, config.channels, config.patch_size, config.patch_size)
        places = (1, config.grid**2 + config.num_special_tokens, width)
        entries = [
            Entry(ours="class_token", hf=(f"{embeddings}.cls_token",), shape=(1, 1, width)),
            Entry(ours="positions.weight", hf=(f"{embeddings}.position_embeddings",), shape=places),
            Entry(ours="patches.projection.weight", hf=(f"{embeddings}.{projection}.weight",), shape=pixels),
            same("patches.projection.bias", f"{embeddings}.{projection}.bias"),
            *linear("norm", f"{self.name}.layernorm"),
            *self.head_table(config),
        ]
        for number in range(config.num_layers):
            ours, hf = f"blocks.{number}", f"{self.name}.encoder.layer.{number}"
            qkv = [f"{hf}.attention.attention.{each}" for each in ("query", "key", "value")]
            entries += [
                *linear(f"{ours}.around_self_attention.norm", f"{hf}.layernorm_before"),
                *stacked_tensors(f"{ours}.self_attention.query_key_value", qkv, widths(config)),
                *linear(f"{ours}.self_attention.output", f"{hf}.attention.output.dense"),
                *linear(f"{ours}.around_feed_forward.norm", f"{hf}.layernorm_after"),
                *linear(f"{ours}.feed_forward.inner", f"{hf}.intermediate.dense"),
                *linear(f"{ours}.feed_forward.outer", f"{hf}.output.dense"),
            ]
        return entries

    def head_table(self, config: VisionConfig) -> list[Entry]:
        """The entries of the classifier."""
        return linear("head", "classifier")


class DeiT(ViT):
    """DeiT (Touvron et al. 2021): ViT with a distillation token, which may have a classifier of its own."""

    name = "deit"
    processors: ClassVar = (DEIT, VIT)
    architectures: ClassVar = {
        "DeiTForImageClassification": "token",
        "DeiTForImageClassificationWithTeacher": "head",
    }

    def head_table(self, config: VisionConfig) -> list[Entry]:
        token = Entry(
            ours="distillation_token",
            hf=("deit.embeddings.distillation_token",),
            shape=(1, 1, config.d_model),
        )
        if config.distillation == "token":
            return [token, *linear("head", "classifier")]
        other = linear("distillation_head", "distillation_classifier")
        return [token, *linear("head", "cls_classifier"), *other]
