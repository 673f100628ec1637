"""Whisper (Radford et al. 2023), which transcribes speech, and its feature extractor."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.errors import ConfigError, FolderError
from regard.models.speech_to_text import SpeechToTextConfig
from regard.weights.families.family import (
    ACTIVATION_NAMES,
    ConfigReader,
    ConvertedConfig,
    Family,
    activation_name,
)
from regard.weights.families.marian import STACKS, block_table
from regard.weights.families.preprocessor import PREPROCESSOR, read_preprocessor
from regard.weights.names import Entry, linear, same
from regard.weights.strict_json import json_bytes

EMBEDDING = "model.decoder.embed_tokens.weight"
ARCHITECTURES = ("WhisperForConditionalGeneration", "WhisperModel", "")
FOLLOWS = ("mel_filters", "n_samples", "nb_max_frames")  # in old files; transformers computes them, too


class Whisper(Family):
    """Whisper: pre-norm blocks, learned positions of text, tied embeddings, and keys without a bias.

    A bias of keys adds the same to all scores of a query, so that no output depends on it: it is 0 here, and
    not written.
    """

    name = "whisper"
    config = SpeechToTextConfig
    special_tokens: ClassVar = {"pad": "<|endoftext|>", "unk": "<|endoftext|>", "eos": "<|endoftext|>"}
    ties: ClassVar = {"proj_out.weight": EMBEDDING}

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """Renames for models without a head, which lack "model."."""
        return [(r"^(?=(encoder|decoder)\.)", "model.")] if "encoder.conv1.weight" in names else ()

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        take = settings.take
        if settings.architecture() not in ARCHITECTURES:
            raise FolderError(
                f"{settings.where}: {settings.architecture()} is not supported",
                f"only {' and '.join(filter(None, ARCHITECTURES))} are",
            )
        settings.must_be("tie_word_embeddings", True)
        settings.unused("encoder_layerdrop", "decoder_layerdrop", "num_hidden_layers", "apply_spec_augment")
        settings.unused(*(f"mask_{axis}_{each}" for axis in ("time", "feature") for each in MASKS))
        settings.unused("use_weighted_layer_sum", "classifier_proj_size")  # of another architecture
        settings.unused("median_filter_width")  # of times of words, which regard does not have
        settings.unused("scale_embedding")  # transformers has never used it in this family
        settings.unused("forced_decoder_ids", "is_decoder")
        vocab_size = take(int, "vocab_size", default=51865)
        pad_id = settings.token_or("pad_token_id", vocab_size, 50256)
        config = SpeechToTextConfig(
            vocab_size=vocab_size,
            d_model=take(int, "d_model", default=384),
            num_encoder_layers=take(int, "encoder_layers", default=4),
            num_decoder_layers=take(int, "decoder_layers", default=4),
            num_encoder_heads=take(int, "encoder_attention_heads", default=6),
            num_heads=take(int, "decoder_attention_heads", default=6),
            d_ff_encoder=take(int, "encoder_ffn_dim", default=1536),
            d_ff=take(int, "decoder_ffn_dim", default=1536),
            num_features=take(int, "num_mel_bins", default=80),
            max_source_positions=take(int, "max_source_positions", default=1500),
            max_positions=take(int, "max_target_positions", default=448),
            activation=settings.choice(ACTIVATION_NAMES, "activation_function", default="gelu"),  # type: ignore[arg-type]
            dropout=take(float, "dropout", default=0.0),
            attention_dropout=take(float, "attention_dropout", default=0.0),
            activation_dropout=take(float, "activation_dropout", default=0.0),
            pad_id=0 if pad_id is None else pad_id,
        )
        return ConvertedConfig(
            config=config,
            start_id=settings.token_or("decoder_start_token_id", vocab_size, 50257),
            pad_id=pad_id,
            eos_id=settings.token_or("eos_token_id", vocab_size, 50256),
        )

    def with_other_files(self, described: ConvertedConfig, folder: Path) -> ConvertedConfig:
        """Adds the settings of the features from preprocessor_config.json, or processor_config.json."""
        assert isinstance(described.config, SpeechToTextConfig)
        settings = read_preprocessor(folder, "feature_extractor")
        config = _with_features(described.config, settings)
        settings.finish()
        return dataclasses.replace(described, config=config)

    def write(self, config: SpeechToTextConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {
            "model_type": self.name,
            "architectures": [ARCHITECTURES[0]],
            "is_encoder_decoder": True,
            "vocab_size": config.vocab_size,
            "d_model": config.d_model,
            "encoder_layers": config.num_encoder_layers,
            "decoder_layers": config.num_decoder_layers,
            "num_hidden_layers": config.num_encoder_layers,
            "encoder_attention_heads": config.num_encoder_heads,
            "decoder_attention_heads": config.num_heads,
            "encoder_ffn_dim": config.d_ff_encoder,
            "decoder_ffn_dim": config.d_ff,
            "num_mel_bins": config.num_features,
            "max_source_positions": config.max_source_positions,
            "max_target_positions": config.max_positions,
            "activation_function": activation_name(config.activation),
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": config.activation_dropout,
            "pad_token_id": config.pad_id,
            "tie_word_embeddings": True,
        }

    def special_token_ids(
        self, config: SpeechToTextConfig, special_tokens: Mapping[str, int]
    ) -> dict[str, Any]:
        """As `Family.special_token_ids`: the start token is the decoder's."""
        start, end = special_tokens["bos_token_id"], special_tokens["eos_token_id"]
        return {
            "pad_token_id": special_tokens["pad_token_id"],
            "bos_token_id": end,
            "eos_token_id": end,
            "decoder_start_token_id": start,
        }

    def other_files(self, config: SpeechToTextConfig) -> dict[str, bytes]:
        seconds, rest = divmod(config.samples_at_once, config.sampling_rate)
        if rest:
            raise FolderError(
                f"a window of {config.samples_at_once} samples is not a whole number of seconds",
                "transformers has no other windows",
            )
        table = {
            "feature_extractor_type": "WhisperFeatureExtractor",
            "processor_class": "WhisperProcessor",
            "feature_size": config.num_features,
            "sampling_rate": config.sampling_rate,
            "n_fft": config.fft_size,
            "hop_length": config.hop_length,
            "chunk_length": seconds,
            "padding_value": 0.0,
            "padding_side": "right",
            "return_attention_mask": False,
        }
        return {PREPROCESSOR: json_bytes(table)}

    def absent_tensors(self, config: SpeechToTextConfig) -> Mapping[str, Tensor]:
        names = [f"model.encoder.layers.{number}.self_attn" for number in range(config.num_encoder_layers)]
        for number in range(config.num_decoder_layers):
            names += [f"model.decoder.layers.{number}.{each}_attn" for each in ("self", "encoder")]
        return {f"{name}.k_proj.bias": torch.zeros(config.d_model) for name in names}

    def table(self, config: SpeechToTextConfig) -> list[Entry]:
        entries = [
            *linear("encoder.input.first", "model.encoder.conv1"),
            *linear("encoder.input.second", "model.encoder.conv2"),
            same("encoder.positions.weight", "model.encoder.embed_positions.weight"),
            same("decoder.input.embedding.weight", EMBEDDING),
            same("decoder.input.positions.weight", "model.decoder.embed_positions.weight"),
        ]
        stacks = (config.of_encoder(), config.of_decoder())
        counts = (config.num_encoder_layers, config.num_decoder_layers)
        for side, stack, count in zip(STACKS, stacks, counts, strict=True):
            for number in range(count):
                ours, hf = f"{side}.blocks.{number}", f"model.{side}.layers.{number}"
                entries += block_table(stack, ours, hf, side)
            entries += linear(f"{side}.norm", f"model.{side}.layer_norm")
        return entries


MASKS = ("prob", "length", "min_masks")  # of training


def _with_features(config: SpeechToTextConfig, settings: ConfigReader) -> SpeechToTextConfig:
    """The config with the settings of its features; those with an unsupported effect are refused."""
    settings.must_be("feature_extractor_type", "WhisperFeatureExtractor")
    if (size := settings.take(int, "feature_size", default=80)) != config.num_features:
        raise FolderError(
            f"{settings.where}: feature_size = {size}, but config.json has {config.num_features} mel bins",
            "use the files of one model",
        )
    settings.must_be("padding_value", 0, 0.0)
    settings.must_be("padding_side", "right")
    settings.must_be("dither", 0, 0.0)
    settings.must_be("do_normalize", False)
    settings.unused("processor_class", "return_attention_mask", *FOLLOWS)
    rate = settings.take(int, "sampling_rate", default=16000)
    hop = settings.take(int, "hop_length", default=160)
    samples = settings.take(int, "chunk_length", default=30) * rate
    try:
        return dataclasses.replace(
            config,
            sampling_rate=rate,
            hop_length=hop,
            fft_size=settings.take(int, "n_fft", default=400),
            window_samples=None if samples == config.window_frames * hop else samples,
        )
    except ConfigError as error:
        raise FolderError(f"{settings.where}: {error.message}", error.hint) from error
