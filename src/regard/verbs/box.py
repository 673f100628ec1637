"""The model in the box: a small English-German translator that comes with the package."""

from importlib import resources
from pathlib import Path
from typing import TypeVar

import torch

from regard import console
from regard.errors import FolderError
from regard.models.model import Model
from regard.verbs.unfinished import unfinished
from regard.weights.foreign_files import is_foreign
from regard.weights.model_folder import LoadedModel, load_model
from regard.weights.pretrained import load_pretrained

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


def box_model() -> Path:
    """The folder of the model in the box.

    Raises:
        FolderError: this installation has none.
    """
    path = Path(str(resources.files("regard"))) / "box" / BOX
    if not path.is_dir():
        raise FolderError("this installation has no model in the box", "name a model folder with --model DIR")
    return path


def load(model: str | Path | None, device: torch.device) -> LoadedModel:
    """The model in a folder, regard's own or a Hugging Face one; or the one in the box."""
    path = Path(model).expanduser() if model is not None else box_model()
    if where := unfinished(path):
        console.note(where)
    return load_pretrained(path, device).loaded if is_foreign(path) else load_model(path, device)


def model_that(does: str, kind: type[Wanted], loaded: LoadedModel) -> Wanted:
    """The loaded model, which must be of a class that does what is asked ("translates").

    Raises:
        FolderError: it is for something else, which the hint names.
    """
    if isinstance(loaded.model, kind):
        return loaded.model
    use = USES.get(loaded.config.kind, "was made for something else").format(path=loaded.path)
    raise FolderError(f"{loaded.path}: this is no model that {does}", f"it {use}")
