"""The model folder: weights, config, tokenisers, decoding defaults and the recipe.

`config.json` is `{"format_version": 1, "kind": "encoder_decoder", "settings": {...}}`, with `labels` for a
model with classes. Unknown keys are refused, and nothing in it refers to code.
"""

import dataclasses
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data import chat_template
from regard.data.chat_template import ChatTemplate
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import ConfigError, FolderError, did_you_mean
from regard.models.build import MODELS, build_uninitialised, config_class, count_config_parameters
from regard.models.config import ModelConfig
from regard.models.model import Model
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import MANIFEST, find_folder
from regard.weights.huggingface_files import is_huggingface
from regard.weights.other_engines import refuse_other_engine
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import restore_model
from regard.weights.verified_folder import VerifiedFolder

CONFIG = "config.json"
CONFIG_VERSION = 1
CHEAP_LAYERS, CHEAP_PARAMETERS = 100, 10**8
MAX_BYTES_OF_NUMBER = 8  # the most bytes of a number
TOKENIZERS = frozenset({"source_tokenizer.json", "tokenizer.json"})
RUN_ONLY = frozenset({"state.json"})  # files of a checkpoint that a model folder does not have


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model in evaluation mode, with everything from its folder."""

    model: Model
    config: ModelConfig
    tokenizer_pair: TokenizerPair | None  # None: the model reads no text, or `fit` trained it on ids
    labels: tuple[str, ...]  # the names of its classes, in the order of its logits
    generation: dict[str, Any]  # decoding defaults
    path: Path
    folder: VerifiedFolder | None = None  # None: a Hugging Face folder
    chat_template: ChatTemplate | None = None  # None: the model continues texts only, or has another use

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenisers of the model.

        Raises:
            FolderError: the model reads no text, its folder has no tokeniser, or no languages are chosen.
        """
        if self.tokenizer_pair is None and reads_text(self.config):
            raise FolderError(
                f"{self.path} has no tokeniser",
                "copy the folder again; of a run of `fit`, which has none, use `model` with lists of ids",
            )
        if self.tokenizer_pair is None:
            raise FolderError(f"{self.path}: a {self.config.kind} model reads no text", "give another model")
        for tokenizer in (self.tokenizer_pair.source, self.tokenizer_pair.target):
            if tokenizer.languages and not tokenizer.prefix:
                raise FolderError(
                    f"{self.path} has {len(tokenizer.languages)} languages, and none is chosen",
                    "give `regard translate` or `regard convert` --source-lang and --target-lang",
                )
        return self.tokenizer_pair


def model_files(
    config: ModelConfig, labels: Sequence[str], others: Mapping[str, bytes], recipe: str
) -> dict[str, bytes]:
    """The files of a model folder except `model.safetensors` and the model card, `README.md`.

    `others` are the files of this kind of model: tokenisers, `generation.json`.
    """
    table = {"format_version": CONFIG_VERSION, "kind": config.kind, "settings": config.to_dict()}
    return {
        CONFIG: json_bytes({**table, "labels": list(labels)} if labels else table),
        **others,
        "recipe.toml": recipe.encode("utf-8"),
    }


def model_files_of(folder: VerifiedFolder) -> dict[str, bytes]:
    """The files of a model folder or checkpoint except its tensors, to be stored with other weights."""
    return {
        name: folder.read_bytes(name)
        for name in folder.names
        if name not in RUN_ONLY and not name.endswith(".safetensors")
    }


def load_model(path: str | Path, device: str | torch.device = "cpu") -> LoadedModel:
    """Loads the model of a model folder; of a run folder, its best model, else its newest checkpoint.

    Raises:
        FolderError: a file is missing, damaged, or belongs to another model.
    """
    folder = open_model_folder(path)
    config, labels = read_config(folder)
    tokenizers = _tokenizers(folder, config)
    where = str(folder.path / "model.safetensors")
    _refuse_large_weights(config, folder.tensor_files("model.safetensors"))
    tensors = folder.read_tensors("model.safetensors")
    check_size(config, tensors, where)
    model = build_uninitialised(config)
    restore_model(model, tensors, where)
    return LoadedModel(
        model=model.to(device).eval(),
        config=config,
        tokenizer_pair=tokenizers,
        labels=labels,
        generation=folder.read_json("generation.json") if "generation.json" in folder.names else {},
        path=folder.path,
        folder=folder,
        chat_template=_chat_template(folder),
    )


def open_model_folder(path: str | Path, names: Collection[str] | None = None) -> VerifiedFolder:
    """Verifies the model folder at `path`; of a run folder, its best model, else its newest checkpoint.

    With `names`, only these files are verified, and no others can be read. A run's checkpoints are verified
    as a whole, because the newest may be damaged.

    Raises:
        FolderError: the folder is missing, damaged, or not a model or run folder of regard.
    """
    path = Path(path).expanduser()
    if is_huggingface(path):
        raise FolderError(
            f"{path} is a Hugging Face folder, not one of regard",
            f"convert it: regard convert {path} --out DIR",
        )
    refuse_other_engine(path)
    if not os.path.isfile(path / MANIFEST) and (
        find_folder(path / "best") or find_folder(path / "checkpoints")
    ):
        run = RunFolder(path)
        folder = run.best(names) or run.latest()
        if folder is None:
            raise FolderError(f"{path} has no checkpoint yet", "continue training, or give another model")
        return folder
    return VerifiedFolder.open(path, names)


def read_config_class(path: str | Path) -> type[ModelConfig]:
    """The class of the config of the model at `path`; only config.json is verified and read.

    Raises:
        FolderError: the folder is missing, its config.json is damaged, or it is not of regard.
    """
    return type(read_config(open_model_folder(path, {CONFIG}))[0])


def read_config(folder: VerifiedFolder) -> tuple[ModelConfig, tuple[str, ...]]:
    """Reads `config.json`: the model's config and the names of its classes.

    Raises:
        FolderError: a key or setting is missing, unknown or invalid.
    """
    path = folder.path / CONFIG
    match folder.read_json(CONFIG):
        case {"format_version": int(version), **others} if version != CONFIG_VERSION:
            raise FolderError(
                f"{path} has format {version}, this version of regard reads format {CONFIG_VERSION}",
                "install the version of regard that wrote it",
            )
        case {"format_version": int(), "kind": str(kind), "settings": dict(settings), **others}:
            pass
        case _:
            raise FolderError(f"{path} lacks format_version, kind or settings", "was it written by regard?")
    labels = others.pop("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise FolderError(f"{path}: labels are not a list of texts", "was it written by regard?")
    if others:
        raise FolderError(
            f"{path}: unknown key {min(others)!r}", "known: format_version, kind, settings, labels"
        )
    return config_of_settings(kind, settings, path), tuple(labels)


def config_of_settings(kind: str, settings: Mapping[str, Any], path: Path) -> ModelConfig:
    """The config of this kind of model with the settings of the file `path`.

    Raises:
        FolderError: the kind or a setting is missing, unknown or invalid.
    """
    if kind not in MODELS:
        raise FolderError(f"{path}: unknown kind of model {kind!r}", MODELS.hint(kind))
    fields = {field.name: field for field in dataclasses.fields(config_class(kind))}
    if unknown := sorted(set(settings) - set(fields)):
        raise FolderError(f"{path}: unknown setting {unknown[0]!r}", did_you_mean(unknown[0], fields))
    if settings.get("positions") == "alibi":
        settings = {"alibi": "symmetric", **settings}  # the only form in older versions
    needed = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    if missing := sorted(needed - set(settings)):
        raise FolderError(f"{path}: setting {missing[0]!r} is missing", "copy the folder again")
    try:
        return config_class(kind).from_dict(dict(settings))
    except ConfigError as error:
        raise FolderError(f"{path}: {error.message}", error.hint) from error


def reads_text(config: ModelConfig) -> bool:
    """True if a model of this config needs a tokeniser."""
    return any(
        field.name.endswith("vocab_size") and getattr(config, field.name) is not None
        for field in dataclasses.fields(config)
    )


def _tokenizers(folder: VerifiedFolder, config: ModelConfig) -> TokenizerPair | None:
    """The tokenisers, read from verified files only; None if the model reads no text."""
    if not reads_text(config) or not TOKENIZERS & {*folder.names}:
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


def _chat_template(folder: VerifiedFolder) -> ChatTemplate | None:
    if chat_template.FILE not in folder.names:
        return None
    return ChatTemplate.from_dict(folder.read_json(chat_template.FILE), str(folder.path / chat_template.FILE))


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
                "tokeniser and model belong to different runs: copy the folder again",
            )


def check_size(config: ModelConfig, tensors: Mapping[str, Tensor], where: str) -> None:
    """Refuses a config of a much larger model than `tensors`, which would fill the memory.

    Small mismatches are found later, when the tensors are compared by name.
    """
    layers = _layers(config)
    stored = sum(tensor.numel() for tensor in tensors.values())
    if layers > max(len(tensors), CHEAP_LAYERS) or _num_parameters(config) > max(stored, CHEAP_PARAMETERS):
        raise FolderError(
            f"{where}: {stored:,} parameters in {len(tensors)} tensors, too few for the model of config.json",
            "these weights belong to another config.json",
        )


def _layers(config: ModelConfig) -> int:
    return sum(value for name, value in config.to_dict().items() if name.endswith("layers"))


def _refuse_large_weights(config: ModelConfig, paths: Sequence[Path]) -> None:
    """Refuses weights files that are much larger than the model of `config` and would fill the memory."""
    size = sum(map(os.path.getsize, paths))
    if _layers(config) > CHEAP_LAYERS:  # slow to count; `check_size` compares them later
        return
    if size > MAX_BYTES_OF_NUMBER * (
        2 * _num_parameters(config) + CHEAP_PARAMETERS
    ):  # twice, for tensors that are not parameters
        raise FolderError(
            f"{paths[0]}: {size:,} bytes, too many for the model of config.json",
            "these weights belong to another config.json",
        )


def _num_parameters(config: ModelConfig) -> float:
    """The number of parameters of a model of this config, computed without building it."""
    try:
        return float(count_config_parameters(config))
    except (RuntimeError, TypeError, OverflowError):  # shapes too large for PyTorch
        return math.inf
