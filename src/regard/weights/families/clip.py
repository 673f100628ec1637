"""CLIP (Radford et al. 2021), and each of its towers alone."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from regard.errors import FolderError
from regard.models.image_text import ImageTextConfig
from regard.weights.families.family import (
    ACTIVATION_NAMES,
    ConfigReader,
    ConvertedConfig,
    Family,
    activation_name,
)
from regard.weights.families.image_preprocessing import CLIP as CLIP_IMAGES
from regard.weights.families.image_preprocessing import preprocessor_table, with_preprocessing
from regard.weights.families.preprocessor import PREPROCESSOR, read_preprocessor
from regard.weights.names import Entry, linear, same, stacked_tensors
from regard.weights.strict_json import json_bytes

LEGACY_END = 2  # the eos_token_id of old files, with which texts end at their highest id
Side = Literal["text", "vision"]
OURS: Mapping[Side, str] = {"text": "text", "vision": "image"}


class CLIP(Family):
    """CLIP: two towers of pre-norm blocks; the state of the class token, and that of a text's last token."""

    name = "clip"
    config = ImageTextConfig
    special_tokens: ClassVar = {
        "pad": "<|endoftext|>",
        "unk": "<|endoftext|>",
        "bos": "<|startoftext|>",
        "eos": "<|endoftext|>",
    }
    buffers: ClassVar = (r"\.embeddings\.position_ids$",)
    word_end = "</w>"
    sides: ClassVar[tuple[Side, ...]] = ("text", "vision")
    architectures: ClassVar[Mapping[str, bool]] = {"CLIPModel": True}  # with or without a projection
    unused: ClassVar[tuple[str, ...]] = ()

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        self._refuse_architecture(settings)
        settings.unused("logit_scale_init_value", "tie_word_embeddings")
        tables = {side: _nested(settings, side) for side in self.sides}
        width = settings.take(int, "projection_dim", default=512)
        config = ImageTextConfig(
            d_model=width, **_text_settings(tables["text"]), **_image_settings(tables["vision"])
        )
        for table in tables.values():
            table.unused("projection_dim")
            table.finish()
        return ConvertedConfig(config=config)

    def _refuse_architecture(self, settings: ConfigReader) -> None:
        if settings.architecture() not in ("", *self.architectures):
            raise FolderError(
                f"{settings.where}: {settings.architecture()} is not supported",
                f"only {' and '.join(self.architectures)} can be read",
            )

    def with_other_files(self, described: ConvertedConfig, folder: Path) -> ConvertedConfig:
        """Adds how images are resized, cropped and scaled, from preprocessor_config.json."""
        config = described.config
        assert isinstance(config, ImageTextConfig)
        if config.image_size is None:
            return described
        settings = read_preprocessor(folder, "image_processor")
        config = with_preprocessing(config, config.image_size, settings, CLIP_IMAGES)
        return dataclasses.replace(described, config=config)

    def write(self, config: ImageTextConfig, labels: Sequence[str]) -> dict[str, Any]:
        sizes = {"text": config.vocab_size, "vision": config.image_size}
        towers = [side for side, size in sizes.items() if size is not None]
        if towers != [*self.sides]:
            raise FolderError(
                f"a model with {' and '.join(towers)} towers is not a {self.name} model",
                "leave out --family: the family follows from the towers",
            )
        if config.end_id == LEGACY_END:
            raise FolderError(
                f"end_id = {LEGACY_END} is written as eos_token_id = {LEGACY_END}, which means the token"
                " of the highest id",
                "only models whose texts end with another token can be written",
            )
        return self.written(config)

    def written(self, config: ImageTextConfig) -> dict[str, Any]:
        """The config.json of a model with the towers of the family."""
        return {
            "model_type": self.name,
            "architectures": ["CLIPModel"],
            "projection_dim": config.d_model,
            **{f"{side}_config": _tower_table(config, side) for side in self.sides},
        }

    def special_token_ids(self, config: Any, special_tokens: dict[str, int]) -> dict[str, Any]:
        """None: `eos_token_id` says where the vector of a text is, and follows from the config."""
        return {}

    def other_files(self, config: ImageTextConfig) -> dict[str, bytes]:
        if config.image_size is None:
            return {}
        return {PREPROCESSOR: json_bytes(preprocessor_table(config, config.image_size, CLIP_IMAGES))}

    def table(self, config: ImageTextConfig) -> list[Entry]:
        entries = []
        if config.vocab_size is not None:
            entries += _text_table(config)
        if config.image_size is not None:
            entries += _image_table(config)
        if config.vocab_size is not None and config.image_size is not None:
            entries.append(Entry(ours="logit_scale", hf=("logit_scale",), shape=()))
        return entries


class CLIPText(CLIP):
    """The text tower of CLIP, with or without its projection."""

    name = "clip_text_model"
    sides: ClassVar[tuple[Side, ...]] = ("text",)
    architectures: ClassVar[Mapping[str, bool]] = {
        "CLIPTextModelWithProjection": True,
        "CLIPTextModel": False,
    }
    unused: ClassVar[tuple[str, ...]] = (r"^(vision_model|visual_projection)\.", r"^logit_scale$")
    projection = "text_projection"
    bare_names = "embeddings|encoder|final_layer_norm"  # of newer files of a model without a projection

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """Adds the name of the tower, which files without a projection may lack."""
        return [(rf"^(?=({self.bare_names})\.)", f"{self.sides[0]}_model.")]

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        self._refuse_architecture(settings)
        settings.unused("tie_word_embeddings")
        tower = self.tower_settings(settings)
        found = f"{self.projection}.weight" in names
        projection = self.architectures.get(settings.architecture(), found)
        width = settings.take(int, "projection_dim", default=512)
        own_width = tower["d_image" if "d_image" in tower else "d_text"]
        config = ImageTextConfig(d_model=width if projection else own_width, projection=projection, **tower)
        unused = self.unused if projection else (*self.unused, rf"^{self.projection}\.")
        return ConvertedConfig(config=config, unused=unused)

    def tower_settings(self, settings: ConfigReader) -> dict[str, Any]:
        """Our settings of the tower."""
        return _text_settings(settings)

    def written(self, config: ImageTextConfig) -> dict[str, Any]:
        names = {projection: name for name, projection in self.architectures.items()}
        return {
            **_tower_table(config, self.sides[0]),
            "architectures": [names[config.projection]],
            **({"projection_dim": config.d_model} if config.projection else {}),
        }


class CLIPVision(CLIPText):
    """The image tower of CLIP, with or without its projection."""

    name = "clip_vision_model"
    sides: ClassVar[tuple[Side, ...]] = ("vision",)
    architectures: ClassVar[Mapping[str, bool]] = {
        "CLIPVisionModelWithProjection": True,
        "CLIPVisionModel": False,
    }
    unused: ClassVar[tuple[str, ...]] = (r"^(text_model|text_projection)\.", r"^logit_scale$")
    projection = "visual_projection"
    bare_names = "embeddings|encoder|pre_layrnorm|post_layernorm"

    def tower_settings(self, settings: ConfigReader) -> dict[str, Any]:
        return _image_settings(settings)


def _nested(settings: ConfigReader, side: Side) -> ConfigReader:
    """The settings of a tower; in old files another object, if it is there, takes precedence."""
    names = (f"{side}_config_dict", f"{side}_config")
    settings.unused(*names)
    name = next((name for name in names if settings.table.get(name) is not None), names[1])
    table = settings.table.get(name) or {}
    if not isinstance(table, dict):
        raise FolderError(
            f"{settings.where}: {name} = {table!r} is not an object", "use the config.json of the weights"
        )
    inner = ConfigReader(table, f"{settings.where}: {name}")
    inner.must_be("model_type", f"clip_{side}_model")
    inner.unused("tie_word_embeddings")
    return inner


def _text_settings(settings: ConfigReader) -> dict[str, Any]:
    """Our settings of the text tower."""
    vocab_size = settings.take(int, "vocab_size", default=49408)
    end_id = settings.take(int, "eos_token_id", default=49407)
    if not 0 <= end_id < vocab_size:
        raise FolderError(
            f"{settings.where}: eos_token_id = {end_id} is not a token id", "give 0 to vocab_size - 1"
        )
    return {
        "vocab_size": vocab_size,
        "end_id": None if end_id == LEGACY_END else end_id,
        "max_positions": settings.take(int, "max_position_embeddings", default=77),
        **_tower_settings(settings, "text", (512, 8, 2048)),
    }


def _image_settings(settings: ConfigReader) -> dict[str, Any]:
    """Our settings of the image tower; its pixels are described by another file."""
    return {
        "image_size": settings.take(int, "image_size", default=224),
        "channels": settings.take(int, "num_channels", default=3),
        "patch_size": settings.take(int, "patch_size", default=32),
        "pixel_mean": 0.0,
        "pixel_std": 1.0,
        **_tower_settings(settings, "vision", (768, 12, 3072)),
    }


def _tower_settings(settings: ConfigReader, side: Side, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """The settings of the blocks of a tower; `sizes` are those that a file may leave out."""
    settings.must_be("is_decoder", False)
    settings.must_be("add_cross_attention", False)
    settings.unused("dropout")  # of old files; no version of CLIP reads it
    take, (width, heads, d_ff), ours = settings.take, sizes, OURS[side]
    return {
        f"d_{ours}": take(int, "hidden_size", default=width),
        f"{ours}_heads": take(int, "num_attention_heads", default=heads),
        f"d_ff_{ours}": take(int, "intermediate_size", default=d_ff),
        f"{ours}_layers": take(int, "num_hidden_layers", default=12),
        f"{ours}_activation": settings.choice(ACTIVATION_NAMES, "hidden_act", default="quick_gelu"),
        f"{ours}_norm_eps": take(float, "layer_norm_eps", default=1e-5),
        f"{ours}_attention_dropout": take(float, "attention_dropout", default=0.0),
    }


def _tower_table(config: ImageTextConfig, side: Side) -> dict[str, Any]:
    """The settings of a tower as files have them."""
    ours = OURS[side]
    table = {
        "model_type": f"clip_{side}_model",
        "hidden_size": getattr(config, f"d_{ours}"),
        "num_attention_heads": getattr(config, f"{ours}_heads"),
        "intermediate_size": getattr(config, f"d_ff_{ours}"),
        "num_hidden_layers": getattr(config, f"{ours}_layers"),
        "hidden_act": activation_name(getattr(config, f"{ours}_activation"), "quick_gelu"),
        "layer_norm_eps": getattr(config, f"{ours}_norm_eps"),
        "attention_dropout": getattr(config, f"{ours}_attention_dropout"),
    }
    if side == "vision":
        sizes = {"image_size": config.image_size, "num_channels": config.channels}
        return {**table, **sizes, "patch_size": config.patch_size}
    return {
        **table,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_positions,
        "eos_token_id": LEGACY_END if config.end_id is None else config.end_id,
        "bos_token_id": None,  # neither changes an output
        "pad_token_id": None,
    }


def _text_table(config: ImageTextConfig) -> list[Entry]:
    embeddings = "text_model.embeddings"
    return [
        same("text.input.embedding.weight", f"{embeddings}.token_embedding.weight"),
        same("text.input.positions.weight", f"{embeddings}.position_embedding.weight"),
        *_block_table("text", "text_model", config.text_layers, config.d_text),
        *linear("text.norm", "text_model.final_layer_norm"),
        *([same("text_projection.weight", "text_projection.weight")] if config.projection else []),
    ]


def _image_table(config: ImageTextConfig) -> list[Entry]:
    embeddings = "vision_model.embeddings"
    pixels = (config.d_image, config.channels, config.patch_size, config.patch_size)
    patches = Entry(
        ours="image.patches.projection.weight", hf=(f"{embeddings}.patch_embedding.weight",), shape=pixels
    )
    return [
        same("image.class_token", f"{embeddings}.class_embedding"),
        patches,
        same("image.positions.weight", f"{embeddings}.position_embedding.weight"),
        *linear("image.first_norm", "vision_model.pre_layrnorm"),
        *_block_table("image", "vision_model", config.image_layers, config.d_image),
        *linear("image.norm", "vision_model.post_layernorm"),
        *([same("image_projection.weight", "visual_projection.weight")] if config.projection else []),
    ]


def _block_table(tower: str, model: str, layers: int, width: int) -> list[Entry]:
    entries = []
    for number in range(layers):
        ours, hf = f"{tower}.blocks.{number}", f"{model}.encoder.layers.{number}"
        qkv = [f"{hf}.self_attn.{each}_proj" for each in ("q", "k", "v")]
        entries += [
            *linear(f"{ours}.around_self_attention.norm", f"{hf}.layer_norm1"),
            *stacked_tensors(f"{ours}.self_attention.query_key_value", qkv, (width, width, width)),
            *linear(f"{ours}.self_attention.output", f"{hf}.self_attn.out_proj"),
            *linear(f"{ours}.around_feed_forward.norm", f"{hf}.layer_norm2"),
            *linear(f"{ours}.feed_forward.inner", f"{hf}.mlp.fc1"),
            *linear(f"{ours}.feed_forward.outer", f"{hf}.mlp.fc2"),
        ]
    return entries
