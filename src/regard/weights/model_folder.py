"""A model is a folder: weights, config, tokenisers, defaults of decoding, the recipe; read as a whole.

`config.json` is `{"format_version": 1, "kind": "encoder_decoder", "settings": {...}}`, a closed list: an
unknown key is refused, and nothing in it names code.
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import ConfigError, FolderError, did_you_mean
from regard.models.build import MODELS, build
from regard.models.config import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.weights.checkpoint import Folder, RunFolder
from regard.weights.folder import MANIFEST, find
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import restore_model

CONFIG_VERSION = 1
CHEAP_LAYERS, CHEAP_NUMBERS = 100, 10**8
RUN_ONLY = frozenset({"state.json"})  # of a checkpoint; beside these and its tensors it is a model folder


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model ready to be used: in evaluation mode, with all that its folder says about it."""

    model: EncoderDecoder
    config: ModelConfig
    tokenizers: TokenizerPair
    generation: dict[str, Any]  # defaults of decoding
    path: Path


def model_files(
    config: ModelConfig, tokenizers: TokenizerPair, generation: Mapping[str, Any], recipe: str
) -> dict[str, bytes]:
    """What makes a folder a model folder, beside `model.safetensors` and the card, `README.md`."""
    settings = config.to_dict()
    kind = settings.pop("kind")
    return {
        "config.json": json_bytes({"format_version": CONFIG_VERSION, "kind": kind, "settings": settings}),
        **tokenizers.files(),
        "generation.json": json_bytes(generation),
        "recipe.toml": recipe.encode("utf-8"),
    }


def model_files_of(folder: Folder) -> dict[str, bytes]:
    """The same files as they stand in a model folder or a checkpoint, to go beside other weights."""
    return {
        name: folder.read_bytes(name)
        for name in folder.names
        if name not in RUN_ONLY and not name.endswith(".safetensors")
    }


def load_model(path: str | Path, device: str | torch.device = "cpu") -> LoadedModel:
    """The model of a model folder; of a run folder, the best so far, else the newest checkpoint.

    Raises:
        FolderError: a file is missing, damaged, or belongs to another model.
    """
    folder = open_model_folder(path)
    config = read_config(folder)
    tokenizers = _tokenizers(folder)
    _check_vocabularies(folder, config, tokenizers)
    tensors = folder.read_tensors("model.safetensors")
    where = str(folder.path / "model.safetensors")
    _check_size(config, tensors, where)
    model = build(config, seed=None)
    restore_model(model, tensors, where)
    return LoadedModel(
        model=model.to(device).eval(),
        config=config,
        tokenizers=tokenizers,
        generation=folder.read_json("generation.json"),
        path=folder.path,
    )


def open_model_folder(path: str | Path) -> Folder:
    """The verified model folder at `path`, or the one that a run folder at `path` would be used by."""
    path = Path(path).expanduser()
    if not os.path.isfile(path / MANIFEST) and (find(path / "best") or find(path / "checkpoints")):
        run = RunFolder(path)
        folder = run.best() or run.latest()
        if folder is None:
            raise FolderError(f"{path} has no checkpoint yet", "train on, or name another model")
        return folder
    return Folder.open(path)


def read_config(folder: Folder) -> ModelConfig:
    """The model's settings as `config.json` has them."""
    path = folder.path / "config.json"
    match folder.read_json("config.json"):
        case {"format_version": int(version), **others} if version != CONFIG_VERSION:
            raise FolderError(
                f"{path} is of format {version}, this regard reads format {CONFIG_VERSION}",
                "install the version of regard that wrote it",
            )
        case {"format_version": int(), "kind": str(kind), "settings": dict(settings), **others}:
            pass
        case _:
            raise FolderError(f"{path} lacks format_version, kind or settings", "was it written by regard?")
    if others:
        raise FolderError(f"{path}: unknown key {min(others)!r}", "it holds format_version, kind, settings")
    if kind not in MODELS:
        raise FolderError(f"{path}: unknown kind of model {kind!r}", did_you_mean(kind, MODELS))
    fields = {field.name: field for field in dataclasses.fields(ModelConfig) if field.name != "kind"}
    if unknown := sorted(set(settings) - set(fields)):
        raise FolderError(f"{path}: unknown setting {unknown[0]!r}", did_you_mean(unknown[0], fields))
    needed = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    if missing := sorted(needed - set(settings)):
        raise FolderError(f"{path}: setting {missing[0]!r} is missing", "copy the folder anew")
    try:
        return ModelConfig.from_dict({"kind": kind, **settings})
    except ConfigError as error:
        raise FolderError(f"{path}: {error.message}", error.hint) from error


def _tokenizers(folder: Folder) -> TokenizerPair:
    """From the verified bytes alone, whatever else lies in the folder."""

    def read(name: str) -> Tokenizer:
        return Tokenizer.from_bytes(folder.read_bytes(name), str(folder.path / name))

    if "source_tokenizer.json" in folder.names:
        return TokenizerPair(read("source_tokenizer.json"), read("target_tokenizer.json"))
    tokenizer = read("tokenizer.json")
    return TokenizerPair(tokenizer, tokenizer)


def _check_vocabularies(folder: Folder, config: ModelConfig, tokenizers: TokenizerPair) -> None:
    for side, tokenizer, size in (
        ("source", tokenizers.source, config.src_vocab_size),
        ("target", tokenizers.target, config.tgt_vocab_size),
    ):
        if tokenizer.vocab_size != size:
            raise FolderError(
                f"{folder.path}: the {side} tokeniser has {tokenizer.vocab_size} tokens, the model {size}",
                "tokeniser and model belong to different runs: copy the folder anew",
            )


def _check_size(config: ModelConfig, tensors: Mapping[str, Tensor], where: str) -> None:
    """Stop before a wrong config takes all memory; what is cheap to build is compared by name instead."""
    layers = config.num_encoder_layers + config.num_decoder_layers
    vocabulary = max(config.src_vocab_size, config.tgt_vocab_size)
    positions = config.max_positions if config.positions == "learned" else 0
    needed = config.d_model * (vocabulary + positions + layers * (config.d_model + 2 * config.d_ff))
    held = sum(tensor.numel() for tensor in tensors.values())
    if layers > max(len(tensors), CHEAP_LAYERS) or needed > max(held, CHEAP_NUMBERS):
        raise FolderError(
            f"{where}: {held:,} numbers in {len(tensors)} tensors, too few for the model of config.json",
            "these weights belong to another config.json",
        )
