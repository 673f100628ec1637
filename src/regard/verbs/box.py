"""The model in the box: a small English-German translator that comes with the package."""

from importlib import resources
from pathlib import Path

import torch

from regard.errors import FolderError
from regard.weights.model_folder import LoadedModel, load_model

BOX = "en-de"


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
    """The model in a folder, or the one in the box."""
    return load_model(Path(model) if model is not None else box_model(), device)
