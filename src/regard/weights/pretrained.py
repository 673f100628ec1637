"""A Hugging Face folder -> our model, and back: config, weights and tokeniser fit each other."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.data.tokenizer import TokenizerPair
from regard.errors import ConfigError, FolderError, did_you_mean
from regard.models.build import build_unfilled
from regard.models.config import ModelConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.model import Model
from regard.registry import Registry
from regard.weights import huggingface_tokenizer
from regard.weights.families.bert import BERT, RoBERTa
from regard.weights.families.distilbert import DistilBERT
from regard.weights.families.family import ConfigReader, ConvertedConfig, Family, ends_of, refuse_misfit
from regard.weights.families.gpt2 import GPT2
from regard.weights.families.llama import Llama, Qwen3
from regard.weights.families.marian import BART, Marian
from regard.weights.families.t5 import T5
from regard.weights.families.vit import ViT
from regard.weights.folder import MANIFEST
from regard.weights.huggingface_decoding import (
    ConvertedDecoding,
    HuggingFaceFiles,
    read_decoding,
    write_decoding,
)
from regard.weights.huggingface_files import CONFIG, is_huggingface, read_table, read_weights
from regard.weights.model_folder import LoadedModel, check_size
from regard.weights.names import read_names, renamed, write_names
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import model_tensors, restore_model

_OWN: dict[str, Family] = {
    family.name: family
    for family in (GPT2(), BERT(), RoBERTa(), DistilBERT(), Marian(), BART(), T5(), Llama(), Qwen3(), ViT())
}
FAMILIES: Registry[Family] = Registry(
    "family of pretrained models", _OWN, how="register_family of regard.weights"
)


def register_family(family: Family) -> None:
    """Make a family of pretrained models known by its name, which config.json has as `model_type`.

    Raises:
        UserError: regard reads this family itself.
    """
    FAMILIES.register(family.name)(family)


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A model of another's folder, and what of the folder it does not use."""

    loaded: LoadedModel
    family: str
    left: tuple[str, ...]  # names of tensors
    undecoded: tuple[str, ...] = ()  # defaults of decoding that generation.json has no place for


def load_pretrained(
    path: str | Path, device: str | torch.device = "cpu", *, trust_pickle: bool = False
) -> Pretrained:
    """The model of a Hugging Face folder; its names are those in the files, nothing in it names code.

    Raises:
        FolderError: a file is missing or damaged, they contradict each other, or the family is unknown.
    """
    folder = Path(path).expanduser()
    _refuse_other(folder)
    table = read_table(folder / CONFIG)
    family = _family(table, folder / CONFIG)
    tensors = read_weights(folder, trust_pickle=trust_pickle)
    tensors = renamed(tensors, [*family.old_names(tensors), *family.changes])
    described = _described(family, folder, table, tensors)
    model, left = _model(family, described, tensors, folder)
    text = huggingface_tokenizer.read_tokenizers(folder, family, described)
    decoding = _decoding(folder, table, described, text)
    loaded = LoadedModel(
        model=model.to(device).eval(),
        config=described.config,
        text=text,
        labels=described.labels,
        generation=decoding.settings,
        path=folder,
    )
    return Pretrained(loaded=loaded, family=family.name, left=left, undecoded=decoding.left)


def huggingface_config_class(path: Path) -> type[ModelConfig]:
    """What kind of model a Hugging Face folder holds; its weights are not read.

    Raises:
        FolderError: its family is unknown.
    """
    return _family(read_table(path / CONFIG), path / CONFIG).config


def _refuse_other(folder: Path) -> None:
    """Raise a FolderError for what is no Hugging Face folder."""
    if not folder.exists():
        raise FolderError(f"{folder} is not there", "check the path")
    if is_huggingface(folder):
        return
    if any((folder / name).exists() for name in (MANIFEST, CONFIG, "checkpoints")):
        raise FolderError(
            f"{folder} is a folder of regard already",
            f"one for transformers: regard convert {folder} --to hf --out DIR",
        )
    raise FolderError(f"{folder} is no Hugging Face folder", f"one has {CONFIG} and model.safetensors")


def _decoding(
    folder: Path, table: Mapping[str, Any], described: ConvertedConfig, text: TokenizerPair | None
) -> ConvertedDecoding:
    """Defaults of decoding: those of config.json, or of a file of their own; all that ends a text."""
    if not described.config.generates:
        return ConvertedDecoding()
    path = folder / "generation_config.json"
    own = read_table(path) if path.is_file() else None
    where = str(folder / CONFIG), str(path)
    sourced = isinstance(described.config, EncoderDecoderConfig)
    found = read_decoding(table, own, where, sourced=sourced, text=text)
    sizes = described.config.to_dict()
    size = sizes.get("vocab_size") or sizes["tgt_vocab_size"]
    ends = [*ends_of(table, where[0], size), *ends_of(own or {}, where[1], size)]
    first = described.eos_id if text is None else text.target.eos_id
    others = [number for number in dict.fromkeys(ends) if number != first]
    settings = {**described.generation, **found.settings, **({"end_ids": others} if others else {})}
    if settings.get("begin") is False and huggingface_tokenizer.begins(folder):
        settings["begin"] = True
    return ConvertedDecoding(settings=settings, left=found.left)


class HuggingFaceFolder(NamedTuple):
    """What a folder that transformers loads is made of; `undecoded` is as in `Pretrained`."""

    family: str
    files: dict[str, bytes | dict[str, Tensor]]
    undecoded: tuple[str, ...]


def to_huggingface(loaded: LoadedModel, family: str | None = None) -> HuggingFaceFolder:
    """The model as one of a family of theirs, the first that has models of its shape, or the one named.

    Raises:
        FolderError: no family has models of this shape.
    """
    chosen = FAMILIES.get(family) if family else None
    if family and chosen is None:
        raise FolderError(f"no family {family!r}", did_you_mean(family, FAMILIES))
    reasons: list[FolderError] = []
    for each in [chosen] if chosen else FAMILIES.values():
        try:
            return _foreign(each, loaded)
        except FolderError as error:
            reasons.append(error)
    if len(reasons) == 1:
        raise FolderError(f"{loaded.path}: {reasons[0].message}", reasons[0].hint)
    raise FolderError(
        f"{loaded.path}: no family has models of this shape: {loaded.config.kind}",
        f"--family {'|'.join(FAMILIES)} says why one of them does not",
    )


def _foreign(family: Family, loaded: LoadedModel) -> HuggingFaceFolder:
    if type(loaded.config) is not family.config:
        raise FolderError(f"a {loaded.config.kind} model is none of {family.name}", "name another family")
    config, tensors = family.adapted(loaded.config, model_tensors(loaded.model))
    refuse_misfit(family, config, loaded.labels)
    settings = family.write(config, loaded.labels)
    files: dict[str, bytes | dict[str, Tensor]] = {
        "model.safetensors": write_names(family.table(config), tensors)
    }
    undecoded: tuple[str, ...] = ()
    if loaded.text is not None:
        settings |= family.marks_of(config, huggingface_tokenizer.marks_of(loaded.text))
        begins = bool(loaded.generation.get("begin", True))
        files |= huggingface_tokenizer.write_tokenizers(loaded.text, config, family.name, begins=begins)
        if config.generates:
            there = _decoding_there(loaded, loaded.text, settings)
            settings |= there.tasks
            files["generation_config.json"] = json_bytes(there.decoding)
            undecoded = there.left
    files |= family.other_files(loaded.config)
    return HuggingFaceFolder(family.name, {"config.json": json_bytes(settings), **files}, undecoded)


def _decoding_there(
    loaded: LoadedModel, text: TokenizerPair, settings: Mapping[str, Any]
) -> HuggingFaceFiles:
    """Marks, all that ends a text, and defaults; `settings` are those of config.json."""
    marks = {name: settings[name] for name in MARKS if name in settings}
    ends = [settings["eos_token_id"], *loaded.generation.get("end_ids", ())]
    there = write_decoding(
        loaded.generation,
        sourced=isinstance(loaded.config, EncoderDecoderConfig),
        text=text,
        ends="forced_eos_token_id" in marks,
    )
    table = {**marks, "eos_token_id": ends if len(ends) > 1 else ends[0], **there.decoding}
    return dataclasses.replace(there, decoding=table)


MARKS = ("pad_token_id", "bos_token_id", "decoder_start_token_id", "forced_eos_token_id")


def _family(table: Mapping[str, Any], path: Path) -> Family:
    name = table.get("model_type")
    if not isinstance(name, str):
        raise FolderError(f"{path}: model_type is missing", f"known: {', '.join(sorted(FAMILIES))}")
    if "auto_map" in table:
        raise FolderError(f"{path}: auto_map names code, which is never run", "regard has no model for it")
    if name not in FAMILIES:
        raise FolderError(f"{path}: the family {name!r} is unknown", did_you_mean(name, FAMILIES))
    return FAMILIES[name]


def _described(
    family: Family, folder: Path, table: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> ConvertedConfig:
    settings = ConfigReader(table, str(folder / CONFIG))
    try:
        described = family.read(settings, tensors.keys())
        settings.finish()
        return family.refined(described, folder)
    except ConfigError as error:
        raise FolderError(f"{folder / CONFIG}: {error.message}", error.hint) from error


def _model(
    family: Family, described: ConvertedConfig, tensors: Mapping[str, Tensor], folder: Path
) -> tuple[Model, tuple[str, ...]]:
    """The model with the weights of the folder, and the names of those that it has no use for."""
    where = str(folder)
    check_size(described.config, tensors, where)  # before a wrong config takes all time and memory
    learned, left = _learned(family, described, tensors, where)
    model = build_unfilled(described.config)
    shapes = {name: tensor.shape for name, tensor in model_tensors(model).items()}
    table = family.table(described.config)
    restore_model(model, read_names(table, learned, shapes, where=where), where)
    return model, left


def _learned(
    family: Family, described: ConvertedConfig, tensors: Mapping[str, Tensor], where: str
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """What the table is to find a place for: without what is empty, repeated, or of a head left out."""
    found = dict(tensors)
    needed = {name for entry in family.table(described.config) for name in entry.theirs}
    for name in [name for name in found if any(re.search(pattern, name) for pattern in family.empty)]:
        del found[name]
    for name, other in family.ties.items():
        if name in found and name not in needed and other in found:
            if not torch.equal(found[name], found[other]):
                raise FolderError(
                    f"{where}: {name!r} is another matrix than {other!r}, to which config.json ties it",
                    "tie_word_embeddings = false in config.json, if they are two",
                )
            del found[name]
    left = tuple(
        sorted(
            name
            for name in found
            if name not in needed and any(re.search(pattern, name) for pattern in described.left)
        )
    )
    return {name: tensor for name, tensor in found.items() if name not in left}, left
