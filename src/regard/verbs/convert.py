"""Convert: a Hugging Face folder or a toolkit's checkpoint to a model folder, a model to Hugging Face.

A model folder of regard whose weights are in shards becomes one with a single file of weights.
"""

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from regard.data import chat_template
from regard.data.folder_file import read_file
from regard.errors import FolderError
from regard.models.build import count_parameters
from regard.verbs.generation.languages import in_languages
from regard.verbs.shared.any_model import AnyModel
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.model_loading import model_path
from regard.weights.average import WEIGHTS
from regard.weights.folder import CARD, MANIFEST, find_folder, write_folder
from regard.weights.huggingface_files import is_huggingface, write_plain_folder
from regard.weights.marian_languages import language_tokens
from regard.weights.model_folder import (
    LoadedModel,
    load_model,
    model_files,
    model_files_of,
    open_model_folder,
    read_config,
    reads_text,
)
from regard.weights.model_name import model_name
from regard.weights.new_folder import refuse_taken
from regard.weights.pretrained import PretrainedModel, load_pretrained, to_huggingface
from regard.weights.saved_tensors import SavedTensors
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import model_tensors
from regard.weights.toolkits.load import load_toolkit, refuse_part_of_checkpoint, toolkit_of, with_encoder
from regard.weights.verified_folder import VerifiedFolder


@dataclass(frozen=True, kw_only=True)
class ConversionReport:
    """The folder that was written, the model's family and size, and what was not converted.

    `unused_tensors`: names of tensors that are not in the folder. `unused_decoding`: such decoding defaults.
    """

    path: Path
    family: str
    parameters: int
    unused_tensors: tuple[str, ...] = ()
    unused_decoding: tuple[str, ...] = ()


@checked
def convert(
    model: AnyModel,
    *,
    out: str | Path,
    to: Literal["regard", "hf"] = "regard",
    family: str | None = None,
    trust_pickle: bool = False,
    encoder: str | Path | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
) -> ConversionReport:
    """Convert a Hugging Face folder, or a toolkit's checkpoint, to a regard model folder, or to Hugging Face.

    The folder is written only if the whole model can be converted. A model of regard whose weights are in
    shards, because several processes trained it with strategy "fsdp2", is written with its weights in one
    file; one tensor is in memory at a time.

    Args:
        model: the folder or file to read; for "hf" also what `regard.load` gives. Of a run folder its best
            model is read.
        out: the folder to write; new or empty, and no part of a run.
        to: "regard" or "hf".
        family: with `to` = "hf" the `model_type` to write, such as marian, bert, gpt2; None is the first
            family that has models of this shape.
        trust_pickle: also read weights in a pickle (.bin, .pt, .ckpt), in another process.
        encoder: for a metric of COMET, a folder with the config.json and tokenizer.json of its encoder.
        source_lang: the language of the texts, for a model of many languages such as NLLB.
        target_lang: the language of the output of such a model.

    Raises:
        FolderError: `out` is not empty, or a part of a run; a file is missing or damaged, files contradict
            each other, the family is unknown, or no family has models of this shape.
        ConfigError: the model has no such language.
    """
    refuse_taken(Path(out))
    if to == "hf":
        if encoder is not None:
            raise FolderError(f"encoder = {encoder}, but to = 'hf' reads none", "leave it out")
        loaded = model if isinstance(model, LoadedModel) else load_model(model_path(model))
        return _to_huggingface(in_languages(loaded, source_lang, target_lang), Path(out), family)
    if isinstance(model, LoadedModel):
        raise FolderError(f"{model.path}: this is a model of regard already", 'give a folder, or to="hf"')
    path = model_path(model)
    toolkit = toolkit_of(path)
    if toolkit is None and (sharded := _sharded_folder(path)) is not None:
        given = {"family": family, "source_lang": source_lang, "target_lang": target_lang}
        return _to_one_file(sharded, Path(out), given)
    if encoder is not None:
        toolkit = with_encoder(toolkit, Path(encoder))
    if toolkit is None:
        if not is_huggingface(path):
            refuse_part_of_checkpoint(path)
        pretrained = load_pretrained(path, trust_pickle=trust_pickle)
    else:
        pretrained = load_toolkit(toolkit, path, trust_pickle=trust_pickle)
    loaded = in_languages(pretrained.loaded, source_lang, target_lang)
    origin = "a Hugging Face folder" if toolkit is None else f"a checkpoint of {toolkit.title}"
    return _to_regard(dataclasses.replace(pretrained, loaded=loaded), Path(out), origin)


def _sharded_folder(path: Path) -> VerifiedFolder | None:
    """The model folder of regard at `path` if its weights are in shards."""
    known = (path / MANIFEST).is_file() or find_folder(path / "best") or find_folder(path / "checkpoints")
    if is_huggingface(path) or not known:
        return None
    folder = open_model_folder(path)
    return folder if WEIGHTS not in folder.names and folder.has_tensors(WEIGHTS) else None


def _to_one_file(folder: VerifiedFolder, out: Path, given: Mapping[str, str | None]) -> ConversionReport:
    """Writes the model folder with its weights in one file; `given` are options that cannot be followed."""
    for name, value in given.items():
        if value is not None:
            raise FolderError(
                f"{folder.path} has its weights in shards, which are only joined: {name} is not used",
                f"leave out {name}, or convert the folder that is written",
            )
    tensors = folder.open_tensors(WEIGHTS)
    files: dict[str, bytes | SavedTensors] = {**model_files_of(folder), WEIGHTS: tensors}
    if os.path.isfile(folder.path / CARD):
        files[CARD] = read_file(folder.path / CARD)
    config, _ = read_config(folder)
    write_folder(out, files)
    parameters = sum(map(math.prod, tensors.shapes.values()))
    return ConversionReport(path=out, family=config.kind, parameters=parameters)


def _to_regard(pretrained: PretrainedModel, out: Path, origin: str) -> ConversionReport:
    loaded, folder = pretrained.loaded, pretrained.loaded.path
    if loaded.tokenizer_pair is None and reads_text(loaded.config):
        raise FolderError(
            f"{folder} has no tokeniser",
            "copy one too: tokenizer.json, vocab.txt, vocab.json with merges.txt, spiece.model or source.spm",
        )
    name = folder.resolve().name
    other_files = dict(loaded.tokenizer_pair.files()) if loaded.tokenizer_pair is not None else {}
    if loaded.config.generates:
        other_files["generation.json"] = json_bytes(loaded.generation)
    if loaded.chat_template is not None:
        other_files[chat_template.FILE] = json_bytes(loaded.chat_template.to_dict())
    recipe = f"# Not trained by a recipe: converted from {origin}.\nname = {json.dumps(name)}\n"
    parameters = count_parameters(loaded.model)
    write_folder(
        out,
        {
            **model_files(loaded.config, loaded.labels, other_files, recipe),
            WEIGHTS: model_tensors(loaded.model),
            CARD: _card(name, parameters, pretrained, origin).encode(),
        },
    )
    return ConversionReport(
        path=out,
        family=pretrained.family,
        parameters=parameters,
        unused_tensors=pretrained.unused,
        unused_decoding=pretrained.unused_decoding,
    )


def _to_huggingface(loaded: LoadedModel, out: Path, family: str | None) -> ConversionReport:
    converted = to_huggingface(loaded, family)
    parameters = count_parameters(loaded.model)
    title = model_name(loaded)
    card = (
        f"# {title}\n\n{parameters:,} parameters; written by regard {version('regard')} for transformers.\n"
    )
    if loaded.tokenizer_pair is not None and (languages := language_tokens(loaded.tokenizer_pair.source)):
        card += f"\nA text begins with the token of the language of its output: {_listed(languages)}\n"
    write_plain_folder(out, {**converted.files, CARD: card.encode()})
    return ConversionReport(
        path=out, family=converted.family, parameters=parameters, unused_decoding=converted.unused_decoding
    )


def _card(name: str, parameters: int, pretrained: PretrainedModel, origin: str) -> str:
    """The model card as Markdown: where the weights come from, and what was not converted."""
    parts = [
        f"# {name}",
        f"{parameters:,} parameters of family `{pretrained.family}`; converted by regard"
        f" {version('regard')} from {origin}. See its model card for licence and scores.",
    ]
    if pretrained.unused:
        parts.append("Tensors that were not converted: " + _listed(pretrained.unused))
    if pretrained.unused_decoding:
        parts.append("Decoding defaults that were not converted: " + _listed(pretrained.unused_decoding))
    return "\n\n".join(parts) + "\n"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in names) + "."
