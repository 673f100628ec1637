"""A model is a folder: weights, config, tokenisers, defaults of decoding, the recipe; read as a whole.

`config.json` is `{"format_version": 1, "kind": "encoder_decoder", "settings": {...}}`, and `labels` where the
model has classes: a closed list. An unknown key is refused, and nothing in it names code.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import ConfigError, FolderError, did_you_mean
from regard.models.build import MODELS, build_unfilled, config_class, parameters_of
from regard.models.config import ModelConfig
from regard.models.model import Model
from regard.weights.checkpoint import RunFolder, VerifiedFolder
from regard.weights.folder import MANIFEST, find
from regard.weights.huggingface_files import is_huggingface
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import restore_model

CONFIG_VERSION = 1
CHEAP_LAYERS, CHEAP_NUMBERS = 100, 10**8
WIDEST = 8  # bytes of a number
RUN_ONLY = frozenset({"state.json"})  # of a checkpoint; beside these and its tensors it is a model folder


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model ready to be used: in evaluation mode, with all that its folder says about it."""

    model: Model
    config: ModelConfig
    text: TokenizerPair | None  # None: the model reads no text
    labels: tuple[str, ...]  # of its classes, in the order of its logits
    generation: dict[str, Any]  # defaults of decoding
    path: Path

    @property
    def tokenizers(self) -> TokenizerPair:
        """How text becomes ids and ids text.

        Raises:
            FolderError: the model reads no text.
        """
        if self.text is None and reads_text(self.config):
            raise FolderError(f"{self.path} has no tokeniser", "copy the folder anew, with all of its files")
        if self.text is None:
            raise FolderError(f"{self.path}: a {self.config.kind} model reads no text", "name another model")
        return self.text


def model_files(
    config: ModelConfig, labels: Sequence[str], others: Mapping[str, bytes], recipe: str
) -> dict[str, bytes]:
    """What makes a folder a model folder, beside `model.safetensors` and the card, `README.md`.

    `others` are files that this kind of model brings: tokenisers, `generation.json`.
    """
    table = {"format_version": CONFIG_VERSION, "kind": config.kind, "settings": config.to_dict()}
    return {
        "config.json": json_bytes({**table, "labels": list(labels)} if labels else table),
        **others,
        "recipe.toml": recipe.encode("utf-8"),
    }


def model_files_of(folder: VerifiedFolder) -> dict[str, bytes]:
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
    config, labels = read_config(folder)
    tokenizers = _tokenizers(folder, config)
    where = str(folder.path / "model.safetensors")
    _refuse_large_weights(config, folder.file("model.safetensors"))
    tensors = folder.read_tensors("model.safetensors")
    check_size(config, tensors, where)
    model = build_unfilled(config)
    restore_model(model, tensors, where)
    return LoadedModel(
        model=model.to(device).eval(),
        config=config,
        text=tokenizers,
        labels=labels,
        generation=folder.read_json("generation.json") if config.generates else {},
        path=folder.path,
    )


def open_model_folder(path: str | Path) -> VerifiedFolder:
    """The verified model folder at `path`, or the one that a run folder at `path` would be used by."""
    path = Path(path).expanduser()
    if is_huggingface(path):
        raise FolderError(
            f"{path} is a Hugging Face folder, not one of regard",
            f"make one of it: regard convert {path} --out DIR",
        )
    if not os.path.isfile(path / MANIFEST) and (find(path / "best") or find(path / "checkpoints")):
        run = RunFolder(path)
        folder = run.best() or run.latest()
        if folder is None:
            raise FolderError(f"{path} has no checkpoint yet", "train on, or name another model")
        return folder
    return VerifiedFolder.open(path)


def read_config(folder: VerifiedFolder) -> tuple[ModelConfig, tuple[str, ...]]:
    """The model's settings and the names of its classes as `config.json` has them."""
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
    labels = others.pop("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise FolderError(f"{path}: labels are no list of texts", "was it written by regard?")
    if others:
        raise FolderError(
            f"{path}: unknown key {min(others)!r}", "others are format_version, kind, settings, labels"
        )
    if kind not in MODELS:
        raise FolderError(f"{path}: unknown kind of model {kind!r}", MODELS.hint(kind))
    fields = {field.name: field for field in dataclasses.fields(config_class(kind))}
    if unknown := sorted(set(settings) - set(fields)):
        raise FolderError(f"{path}: unknown setting {unknown[0]!r}", did_you_mean(unknown[0], fields))
    if settings.get("positions") == "alibi":
        settings = {"alibi": "symmetric", **settings}  # as it was before there was a choice
    needed = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    if missing := sorted(needed - set(settings)):
        raise FolderError(f"{path}: setting {missing[0]!r} is missing", "copy the folder anew")
    try:
        return config_class(kind).from_dict(settings), tuple(labels)
    except ConfigError as error:
        raise FolderError(f"{path}: {error.message}", error.hint) from error


def reads_text(config: ModelConfig) -> bool:
    """Whether a model of this config needs a tokeniser."""
    return any(field.name.endswith("vocab_size") for field in dataclasses.fields(config))


def _tokenizers(folder: VerifiedFolder, config: ModelConfig) -> TokenizerPair | None:
    """From the verified bytes alone, whatever else lies in the folder; None where the model reads no text."""
    if not reads_text(config):
        return None

    def read(name: str) -> Tokenizer:
        return Tokenizer.from_bytes(folder.read_bytes(name), str(folder.path / name))

    if "source_tokenizer.json" in folder.names:
        tokenizers = TokenizerPair(read("source_tokenizer.json"), read("target_tokenizer.json"))
    else:
        tokenizer = read("tokenizer.json")
        tokenizers = TokenizerPair(tokenizer, tokenizer)
    _check_vocabularies(folder, config, tokenizers)
    return tokenizers


def _check_vocabularies(folder: VerifiedFolder, config: ModelConfig, tokenizers: TokenizerPair) -> None:
    for name, tokenizer in (
        ("src_vocab_size", tokenizers.source),
        ("tgt_vocab_size", tokenizers.target),
        ("vocab_size", tokenizers.source),
    ):
        size = getattr(config, name, None)
        if size not in (None, tokenizer.vocab_size):
            raise FolderError(
                f"{folder.path}: the tokeniser has {tokenizer.vocab_size} tokens, {name} is {size}",
                "tokeniser and model belong to different runs: copy the folder anew",
            )


def check_size(config: ModelConfig, tensors: Mapping[str, Tensor], where: str) -> None:
    """Stop before a wrong config takes all memory; what is cheap to build is compared by name instead."""
    layers = _layers(config)
    held = sum(tensor.numel() for tensor in tensors.values())
    if layers > max(len(tensors), CHEAP_LAYERS) or _numbers(config) > max(held, CHEAP_NUMBERS):
        raise FolderError(
            f"{where}: {held:,} numbers in {len(tensors)} tensors, too few for the model of config.json",
            "these weights belong to another config.json",
        )


def _layers(config: ModelConfig) -> int:
    return sum(value for name, value in config.to_dict().items() if name.endswith("layers"))


def _refuse_large_weights(config: ModelConfig, path: Path) -> None:
    """Stop before a file takes all memory that has far more than the model of `config` can hold."""
    size = os.path.getsize(path)
    if _layers(config) > CHEAP_LAYERS:  # dear to count, and compared by `check_size`
        return
    if size > WIDEST * (2 * _numbers(config) + CHEAP_NUMBERS):  # twice, for what is there and not learned
        raise FolderError(
            f"{path}: {size:,} bytes, too many for the model of config.json",
            "these weights belong to another config.json",
        )


def _numbers(config: ModelConfig) -> float:
    """How many numbers a model of this config learns, found without making them."""
    try:
        return float(parameters_of(config))
    except (RuntimeError, TypeError, OverflowError):  # shapes beyond what PyTorch can count
        return math.inf
