"""Convert: a Hugging Face folder becomes a model folder of regard, a model of regard one of theirs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from regard.errors import FolderError
from regard.models.build import count_parameters
from regard.verbs.any_model import AnyModel
from regard.verbs.arguments import checked
from regard.verbs.box import model_path
from regard.weights.folder import write_folder
from regard.weights.huggingface_files import refuse_taken, write_plain_folder
from regard.weights.model_folder import LoadedModel, load_model, model_files, reads_text
from regard.weights.pretrained import Pretrained, load_pretrained, to_huggingface
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import model_tensors


@dataclass(frozen=True, kw_only=True)
class Converted:
    """The folder that was written, the family of the model, and what of the other is not in it.

    `left` are names of tensors, `undecoded` defaults of decoding that have no place there.
    """

    path: Path
    family: str
    parameters: int
    left: tuple[str, ...] = ()
    undecoded: tuple[str, ...] = ()


@checked
def convert(
    model: AnyModel,
    *,
    out: str | Path,
    to: Literal["regard", "hf"] = "regard",
    family: str | None = None,
    trust_pickle: bool = False,
) -> Converted:
    """Write `model`, a Hugging Face folder, as a model folder; with `to` = "hf" the other way round.

    Nothing is written unless all of it can be. `family` is the one to write for, by its `model_type`; else
    the first that has models of this shape. `trust_pickle`: read weights in a pickle too, in another process.

    Args:
        model: the folder to read; for "hf" also what `regard.load` gives.
        out: the folder to write.
        to: "regard" or "hf".
        family: whose shape to write, such as marian, bert, gpt2; with `to` = "hf".
        trust_pickle: read weights in a pickle (.bin) too, in another process.

    Raises:
        FolderError: `out` has something in it, a file is missing or damaged, files contradict each other, the
            family is unknown, or no family has models of this shape.
    """
    refuse_taken(Path(out))
    if to == "hf":
        loaded = model if isinstance(model, LoadedModel) else load_model(model_path(model))
        return _to_theirs(loaded, Path(out), family)
    if isinstance(model, LoadedModel):
        raise FolderError(f"{model.path}: this is a model of regard already", 'give a folder, or to="hf"')
    return _to_ours(model_path(model), Path(out), trust_pickle)


def _to_ours(folder: Path, out: Path, trust_pickle: bool) -> Converted:
    found = load_pretrained(folder, trust_pickle=trust_pickle)
    loaded = found.loaded
    if loaded.text is None and reads_text(loaded.config):
        raise FolderError(
            f"{folder} has no tokeniser",
            "copy tokenizer.json, or vocab.txt, vocab.json with merges.txt, spiece.model, source.spm too",
        )
    name = folder.resolve().name
    others = dict(loaded.text.files()) if loaded.text is not None else {}
    if loaded.config.generates:
        others["generation.json"] = json_bytes(loaded.generation)
    recipe = f"# Not trained by a recipe: converted from a Hugging Face folder.\nname = {json.dumps(name)}\n"
    parameters = count_parameters(loaded.model)
    write_folder(
        out,
        {
            **model_files(loaded.config, loaded.labels, others, recipe),
            "model.safetensors": model_tensors(loaded.model),
            "README.md": _card(name, parameters, found).encode(),
        },
    )
    return Converted(
        path=out,
        family=found.family,
        parameters=parameters,
        left=found.unused,
        undecoded=found.unused_decoding,
    )


def _to_theirs(loaded: LoadedModel, out: Path, family: str | None) -> Converted:
    there = to_huggingface(loaded, family)
    parameters = count_parameters(loaded.model)
    title = loaded.path.resolve().name
    card = (
        f"# {title}\n\n{parameters:,} parameters; written by regard {version('regard')} for transformers.\n"
    )
    write_plain_folder(out, {**there.files, "README.md": card.encode()})
    return Converted(path=out, family=there.family, parameters=parameters, undecoded=there.unused_decoding)


def _card(name: str, parameters: int, found: Pretrained) -> str:
    """Markdown: where the weights come from, and what of them was left out."""
    parts = [
        f"# {name}",
        f"{parameters:,} parameters of family `{found.family}`; converted by regard {version('regard')} from"
        " a Hugging Face folder. The licence and the scores are those of its own card.",
    ]
    if found.unused:
        parts.append("Not used of it: " + _listed(found.unused))
    if found.unused_decoding:
        parts.append("Not taken of its defaults of decoding: " + _listed(found.unused_decoding))
    return "\n\n".join(parts) + "\n"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in names) + "."
