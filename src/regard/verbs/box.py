"""The model in the box: a small English-German translator that comes with the package."""

import difflib
import os
from importlib import resources
from pathlib import Path
from typing import TypeVar

import torch

from regard import console
from regard.errors import FolderError
from regard.models.config import ModelConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.model import Model
from regard.verbs.unfinished_run import unfinished
from regard.weights.folder import find
from regard.weights.huggingface_files import is_huggingface
from regard.weights.model_folder import LoadedModel, load_model, read_config_class
from regard.weights.pretrained import huggingface_config_class, load_pretrained

BOX = "en-de"
USES = {  # kind of model -> what it is for, and how
    "encoder_decoder": "translates: `regard translate --model {path}`",
    "recurrent": "translates: `regard translate --model {path}`",
    "decoder_only": "goes on with a text: `regard generate --model {path}`",
    "encoder_only": "labels texts or words: `regard classify` or `regard tag --model {path}`",
    "gat": "labels nodes of a graph: `regard classify --model {path} --input GRAPH.npz`",
    "graph_transformer": "labels nodes of a graph: `regard classify --model {path} --input GRAPH.npz`",
    "vision": "labels images: `regard classify --model {path} --input FILE`",
    "conformer": "transcribes recordings: `regard transcribe --model {path} FILE`",
}
Wanted = TypeVar("Wanted", bound=Model)


def box_model(name: str = BOX) -> Path:
    """The folder of a model in the box: without a name, of the one that translates.

    Raises:
        FolderError: this installation has none.
    """
    path = Path(str(resources.files("regard"))) / "box" / name
    if not path.is_dir():
        raise FolderError("this installation has no model in the box", "name a model folder with --model DIR")
    return path


def box_models() -> list[str]:
    """The names of the models in the box."""
    folder = Path(str(resources.files("regard"))) / "box"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def model_path(model: str | Path, base: Path = Path()) -> Path:
    """The folder that `model` names: a path, from `base`; a model in the box where there is no such path.

    Raises:
        FolderError: there is neither.
    """
    path = base / Path(model).expanduser()
    if find(path) is not None or os.path.exists(path):
        return path
    known = box_models()
    if str(model) in known:
        return box_model(str(model))
    hint = "name a model folder" + "".join(f", or {name}, a model in the box" for name in known)
    near = difflib.get_close_matches(str(model), known, n=1, cutoff=0.7)
    raise FolderError(
        f"{path} does not exist", f"did you mean {near[0]!r}, a model in the box?" if near else hint
    )


def load(model: str | Path | None, device: torch.device) -> LoadedModel:
    """The model in a folder, regard's own or a Hugging Face one; or one in the box, by its name."""
    path = model_path(model) if model is not None else box_model()
    if where := unfinished(path):
        console.note(where)
    if not is_huggingface(path):
        loaded = load_model(path, device)
        _warn_of_symmetric(loaded)
        return loaded
    found = load_pretrained(path, device)
    if found.unused_decoding:
        console.warn(f"{path}: not taken of its decoding defaults: {', '.join(found.unused_decoding)}")
    return found.loaded


def _warn_of_symmetric(loaded: LoadedModel) -> None:
    """Say so where an encoder cannot tell a text from its reverse; a convolution could."""
    config = loaded.config
    if not isinstance(config, EncoderOnlyConfig | EncoderDecoderConfig) or config.positions != "alibi":
        return
    if config.alibi == "symmetric":
        console.warn(
            f"{loaded.path}: its encoder cannot tell the order of a text from the reverse: ALiBi counts both"
            " directions alike in it. Train it anew; alibi = 'directed' is the default now"
        )


def config_class_of(model: str | Path) -> type[ModelConfig]:
    """The kind of the model in a folder, regard's own or a Hugging Face one, without its weights."""
    path = model_path(model)
    return huggingface_config_class(path) if is_huggingface(path) else read_config_class(path)


def model_that(does: str, kind: type[Wanted], loaded: LoadedModel) -> Wanted:
    """The loaded model, which must be of a class that does what is asked ("translates").

    Raises:
        FolderError: it is for something else, which the hint names.
    """
    if isinstance(loaded.model, kind):
        return loaded.model
    use = USES.get(loaded.config.kind, "was made for something else").format(path=loaded.path)
    raise FolderError(f"{loaded.path}: this is no model that {does}", f"it {use}")
