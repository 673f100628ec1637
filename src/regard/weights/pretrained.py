"""Converts a Hugging Face folder to a model of regard, and back: config, weights, tokeniser, decoding."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.data.tokenizer import TokenizerPair
from regard.errors import ConfigError, FolderError, UserError, did_you_mean
from regard.models.build import base_kind, build_uninitialised, is_registered
from regard.models.config import ModelConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.model import Model
from regard.models.registered import registered_parts
from regard.models.speech_to_text import SpeechToTextConfig
from regard.registry import SIMILAR, Registry, refuse_other_methods
from regard.weights import huggingface_tokenizer
from regard.weights.families import exported
from regard.weights.families.bert import BERT, RoBERTa, XLMRoberta
from regard.weights.families.clip import CLIP, CLIPText, CLIPVision
from regard.weights.families.distilbert import DistilBERT
from regard.weights.families.electra import ELECTRA
from regard.weights.families.family import (
    ConfigReader,
    ConvertedConfig,
    Family,
    ends_of,
    nearest_settings,
    refuse_misfit,
)
from regard.weights.families.gemma import Gemma, Gemma2, Gemma3Text
from regard.weights.families.gpt2 import GPT2
from regard.weights.families.gpt_neox import GPTNeoX
from regard.weights.families.llama import Llama, Mistral, Qwen2, Qwen3
from regard.weights.families.m2m100 import M2M100
from regard.weights.families.marian import BART, Marian
from regard.weights.families.mbart import MBART
from regard.weights.families.modernbert import ModernBERT
from regard.weights.families.olmo2 import OLMo2
from regard.weights.families.pegasus import Pegasus
from regard.weights.families.phi import Phi
from regard.weights.families.t5 import T5
from regard.weights.families.vit import DeiT, ViT
from regard.weights.families.whisper import Whisper
from regard.weights.folder import MANIFEST
from regard.weights.huggingface_chat import read_chat_template, with_chat_template
from regard.weights.huggingface_decoding import (
    ConvertedDecoding,
    HuggingFaceFiles,
    read_decoding,
    write_decoding,
)
from regard.weights.huggingface_files import CONFIG, is_huggingface, read_table, read_weights
from regard.weights.huggingface_speech import read_speech_decoding, write_speech_decoding
from regard.weights.model_folder import LoadedModel, check_size, reads_text
from regard.weights.names import read_names, renamed, write_names
from regard.weights.other_engines import refuse_other_engine
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import model_tensors, restore_model

_OWN: dict[str, Family] = {
    family.name: family
    for family in (
        *(GPT2(), BERT(), RoBERTa(), DistilBERT(), Marian(), BART(), MBART(), Pegasus(), M2M100(), T5()),
        *(Llama(), Mistral(), Qwen2(), Qwen3(), Gemma(), Gemma2(), Gemma3Text()),
        *(GPTNeoX(), Phi(), OLMo2(), XLMRoberta(), ELECTRA(), ModernBERT(), ViT(), DeiT(), Whisper()),
        *(CLIP(), CLIPText(), CLIPVision()),
    )
}
FAMILIES: Registry[Family] = Registry(
    "family of pretrained models", _OWN, how="register_family of regard.weights"
)


SPECIAL_TOKEN_IDS = ("pad_token_id", "bos_token_id", "decoder_start_token_id", "forced_eos_token_id")


def register_family(family: Family) -> None:
    """Make a family of pretrained models known by its name, which config.json has as `model_type`.

    Raises:
        UserError: regard reads this family itself; or it is not an instance of `Family`, or a method of it
            cannot be called as that of `Family`.
    """
    if not isinstance(family, Family):
        what = family.__name__ if isinstance(family, type) else type(family).__name__
        raise UserError(
            f"the family of pretrained models {what} is not an instance of Family",
            "inherit from Family of regard.weights, and pass an instance: register_family(MyFamily())",
        )
    refuse_other_methods(type(family), Family, f"the family of pretrained models {family.name!r}")
    FAMILIES.register(family.name)(family)


@dataclass(frozen=True, kw_only=True)
class PretrainedModel:
    """A model from a Hugging Face folder, and the parts of the folder that it does not use.

        pretrained = load_pretrained("opus-mt-en-fr")
        pretrained.loaded.model  # the model, in evaluation mode; `loaded` is a `LoadedModel`
        pretrained.loaded.tokenizers.source.encode("Hello")

    `loaded` has the model, its config, tokenisers and decoding defaults. `family` is the name of its kind,
    such as "marian". `unused` names tensors, and `unused_decoding` settings, that regard does not use.
    """

    loaded: LoadedModel
    family: str
    unused: tuple[str, ...]  # names of unused tensors
    unused_decoding: tuple[str, ...] = ()  # decoding defaults that regard does not have


def load_pretrained(
    path: str | Path, device: str | torch.device = "cpu", *, trust_pickle: bool = False
) -> PretrainedModel:
    """Loads the model of a Hugging Face folder; no code of the folder is run.

    Raises:
        FolderError: a file is missing or damaged, files do not match, or the family is not supported.
    """
    folder = Path(path).expanduser()
    _refuse_not_huggingface(folder)
    table = read_table(folder / CONFIG)
    family = _family(table, folder / CONFIG)
    tensors = read_weights(folder, trust_pickle=trust_pickle)
    tensors = renamed(tensors, [*family.old_names(tensors), *family.renames])
    converted = _converted_config(family, folder, table, tensors)
    model, unused = _model(family, converted, tensors, folder)
    tokenizers = None
    if reads_text(converted.config):
        tokenizers = huggingface_tokenizer.read_tokenizers(folder, family, converted)
    decoding = _decoding(folder, table, converted, tokenizers)
    loaded = LoadedModel(
        model=model.to(device).eval(),
        config=converted.config,
        tokenizer_pair=tokenizers,
        labels=converted.labels,
        generation=decoding.settings,
        path=folder,
        chat_template=read_chat_template(folder) if family.config is DecoderOnlyConfig else None,
    )
    return PretrainedModel(loaded=loaded, family=family.name, unused=unused, unused_decoding=decoding.unused)


def huggingface_config_class(path: Path) -> type[ModelConfig]:
    """The config class of the model in a Hugging Face folder; its weights are not read.

    Raises:
        FolderError: its family is not supported.
    """
    return _family(read_table(path / CONFIG), path / CONFIG).config


def _refuse_not_huggingface(folder: Path) -> None:
    """Raises a FolderError unless `folder` is a Hugging Face folder."""
    if not folder.exists():
        raise FolderError(f"{folder} does not exist", "check the path")
    if is_huggingface(folder):
        return
    refuse_other_engine(folder)
    if any((folder / name).exists() for name in (MANIFEST, CONFIG, "checkpoints")):
        raise FolderError(
            f"{folder} is a folder of regard already",
            f"convert it for transformers: regard convert {folder} --to hf --out DIR",
        )
    raise FolderError(
        f"{folder} is not a Hugging Face folder",
        f"such a folder has {CONFIG} and model.safetensors; those of toolkits are in"
        " docs/do/coming-from-toolkits.md",
    )


def _decoding(
    folder: Path, table: Mapping[str, Any], converted: ConvertedConfig, tokenizers: TokenizerPair | None
) -> ConvertedDecoding:
    """The decoding defaults of generation_config.json, else of config.json, and all eos ids."""
    if not converted.config.generates:
        return ConvertedDecoding()
    path = folder / "generation_config.json"
    own = read_table(path) if path.is_file() else None
    where = str(folder / CONFIG), str(path)
    if isinstance(converted.config, SpeechToTextConfig):
        return read_speech_decoding(table, own, where, converted.config, tokenizers)
    has_source = isinstance(converted.config, EncoderDecoderConfig)
    found = read_decoding(table, own, where, has_source=has_source, tokenizers=tokenizers)
    sizes = converted.config.to_dict()
    size = sizes.get("vocab_size") or sizes["tgt_vocab_size"]
    eos_ids = [*ends_of(table, where[0], size), *ends_of(own or {}, where[1], size)]
    first = converted.eos_id if tokenizers is None else tokenizers.target.eos_id
    others = [number for number in dict.fromkeys(eos_ids) if number != first]
    settings = {**converted.generation, **found.settings, **({"end_ids": others} if others else {})}
    if tokenizers is not None and tokenizers.target.languages and tokenizers.target.prefix:
        settings["forced_bos_id"] = tokenizers.target.prefix[0]
    if settings.get("begin") is False and huggingface_tokenizer.adds_bos(folder):
        settings["begin"] = True
    if isinstance(converted.config, DecoderOnlyConfig) and settings.get("begin", True):
        settings.setdefault("may_end", True)  # generated; other tools do not count it in a text's score
    return ConvertedDecoding(settings=settings, unused=found.unused)


class HuggingFaceFolder(NamedTuple):
    """The files of a model for transformers."""

    family: str
    files: dict[str, bytes | dict[str, Tensor]]
    unused_decoding: tuple[str, ...]  # decoding defaults that transformers does not have


def to_huggingface(loaded: LoadedModel, family: str | None = None) -> HuggingFaceFolder:
    """Converts a model to a Hugging Face family: the one named, else the first that fits its architecture.

    Raises:
        FolderError: no family fits.
    """
    chosen = FAMILIES.get(family) if family else None
    if family and chosen is None:
        raise FolderError(f"unknown family {family!r}", did_you_mean(family, FAMILIES, SIMILAR))
    reasons: list[FolderError | ConfigError] = []
    for each in [chosen] if chosen else FAMILIES.values():
        try:
            return _to_family(each, loaded)
        except (FolderError, ConfigError) as error:
            reasons.append(error)
    if len(reasons) == 1:
        raise FolderError(f"{loaded.path}: {reasons[0].message}", reasons[0].hint)
    way_out = ""
    if is_registered(loaded.config) and base_kind(loaded.config) in ("encoder_decoder", "decoder_only"):
        way_out = "; regard export --to onnx traces its code"
    elif loaded.config.generates and not registered_parts(loaded.config):
        way_out = "; regard export --to hf writes it with its code"
    raise FolderError(
        f"{loaded.path}: no Hugging Face family fits this {loaded.config.kind} model",
        f"--family {'|'.join(FAMILIES)} shows why one of them does not{way_out}",
    )


def nearest_families(config: ModelConfig) -> list[tuple[str, dict[str, Any]]]:
    """Families with what a model of theirs has instead of these settings, the nearest first."""
    found = [(name, nearest_settings(family, config)) for name, family in FAMILIES.items()]
    return sorted(
        ((name, settings) for name, settings in found if settings is not None), key=lambda pair: len(pair[1])
    )


def _to_family(family: Family, loaded: LoadedModel) -> HuggingFaceFolder:
    if type(loaded.config) is not family.config:
        raise FolderError(f"a {loaded.config.kind} model is not a {family.name} model", "give another family")
    config, tensors = family.in_family_form(loaded.config, model_tensors(loaded.model))
    refuse_misfit(family, config, loaded.labels)
    settings = family.write(config, loaded.labels)
    written = write_names(family.table(config), tensors)
    for name in family.absent_tensors(config):
        del written[name]
    if family.writes_fixed_tensors:
        written |= family.fixed_tensors(config)
    files: dict[str, bytes | dict[str, Tensor]] = {"model.safetensors": written}
    unused_decoding: tuple[str, ...] = ()
    if loaded.tokenizer_pair is not None:
        settings |= family.special_token_ids(
            config, huggingface_tokenizer.special_token_ids(loaded.tokenizer_pair)
        )
        adds_bos = bool(loaded.generation.get("begin", True))
        tokenizer_files = huggingface_tokenizer.write_tokenizers(
            loaded.tokenizer_pair, config, family.name, adds_bos=adds_bos
        )
        if loaded.chat_template is not None:
            tokenizer_files = with_chat_template(tokenizer_files, loaded.chat_template)
        files |= tokenizer_files
        if config.generates:
            hf_decoding = _hf_decoding(loaded, loaded.tokenizer_pair, settings)
            settings |= hf_decoding.tasks
            files["generation_config.json"] = json_bytes(hf_decoding.decoding)
            unused_decoding = hf_decoding.unused
    files |= family.other_files(loaded.config)
    return HuggingFaceFolder(family.name, {"config.json": json_bytes(settings), **files}, unused_decoding)


def _hf_decoding(
    loaded: LoadedModel, tokenizers: TokenizerPair, settings: Mapping[str, Any]
) -> HuggingFaceFiles:
    """The content of generation_config.json; `settings` are those of config.json."""
    ids = {name: settings[name] for name in SPECIAL_TOKEN_IDS if name in settings}
    eos_ids = [settings["eos_token_id"], *loaded.generation.get("end_ids", ())]
    if isinstance(loaded.config, SpeechToTextConfig):
        hf_decoding = write_speech_decoding(loaded.generation, tokenizers)
    else:
        hf_decoding = write_decoding(
            loaded.generation,
            has_source=isinstance(loaded.config, EncoderDecoderConfig),
            tokenizers=tokenizers,
            forced_eos="forced_eos_token_id" in ids,
        )
    table = {
        **ids,
        "eos_token_id": eos_ids if len(eos_ids) > 1 else eos_ids[0],
        **hf_decoding.decoding,
    }
    return dataclasses.replace(hf_decoding, decoding=table)


def _family(table: Mapping[str, Any], path: Path) -> Family:
    name = table.get("model_type")
    if not isinstance(name, str):
        raise FolderError(f"{path}: model_type is missing", f"known: {', '.join(sorted(FAMILIES))}")
    if name == exported.MODEL_TYPE:
        return exported.Exported(table, path)
    if "auto_map" in table:
        raise FolderError(
            f"{path}: auto_map refers to code, which is never run", "regard has no model for it"
        )
    if name not in FAMILIES:
        raise FolderError(
            f"{path}: the family {name!r} is not supported", did_you_mean(name, FAMILIES, SIMILAR)
        )
    return FAMILIES[name]


def _converted_config(
    family: Family, folder: Path, table: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> ConvertedConfig:
    settings = ConfigReader(table, str(folder / CONFIG))
    try:
        converted = family.read(settings, tensors.keys())
        settings.finish()
        return family.with_other_files(converted, folder)
    except ConfigError as error:
        raise FolderError(f"{folder / CONFIG}: {error.message}", error.hint) from error


def _model(
    family: Family, converted: ConvertedConfig, tensors: Mapping[str, Tensor], folder: Path
) -> tuple[Model, tuple[str, ...]]:
    """The model with the weights of the folder, and the names of unused weights."""
    where = str(folder)
    check_size(converted.config, tensors, where)  # before a wrong config takes all time and memory
    weights, unused = _weights_to_convert(family, converted, tensors, where)
    model = build_uninitialised(converted.config)
    shapes = {name: tensor.shape for name, tensor in model_tensors(model).items()}
    table = family.table(converted.config)
    restore_model(model, read_names(table, weights, shapes, where=where), where)
    return model, unused


def _weights_to_convert(
    family: Family, converted: ConvertedConfig, tensors: Mapping[str, Tensor], where: str
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The weights to convert, and the names of unused ones; buffers and tied duplicates are dropped."""
    found = dict(tensors)
    needed = {name for entry in family.table(converted.config) for name in entry.hf}
    for name, tensor in family.fixed_tensors(converted.config).items():
        if name in found and not _equal(found.pop(name), tensor):
            raise FolderError(
                f"{where}: {name!r} is not what follows from config.json", "use the original checkpoint"
            )
    for name in [name for name in found if any(re.search(pattern, name) for pattern in family.buffers)]:
        del found[name]
    for name, other in family.ties.items():
        if name in found and name not in needed and other in found:
            if not torch.equal(found[name], found[other]):
                raise FolderError(
                    f"{where}: {name!r} differs from {other!r}, to which config.json ties it",
                    "set tie_word_embeddings = false in config.json if they are not tied",
                )
            del found[name]
    unused = tuple(
        sorted(
            name
            for name in found
            if name not in needed and any(re.search(pattern, name) for pattern in converted.unused)
        )
    )
    weights = {name: tensor for name, tensor in found.items() if name not in unused}
    for name, tensor in family.absent_tensors(converted.config).items():
        if name in weights:
            raise FolderError(
                f"{where}: a {family.name} model has no {name!r}", "use the original checkpoint"
            )
        weights[name] = tensor
    return weights, unused


def _equal(found: Tensor, computed: Tensor) -> bool:
    """True if these are the same numbers, as far as the file's type can hold them."""
    precision = max(1e-4, torch.finfo(found.dtype).eps if found.is_floating_point() else 0.0)
    return found.shape == computed.shape and torch.allclose(
        found.float(), computed, rtol=precision, atol=precision
    )
