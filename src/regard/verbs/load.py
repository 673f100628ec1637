"""Load: a model from a folder, regard's own or another's, with its config, tokenisers and labels."""

from pathlib import Path

from regard.verbs import box
from regard.verbs.device import choose_device
from regard.weights.model_folder import LoadedModel


def load(model: str | Path, *, device: str = "auto", threads: int | None = None) -> LoadedModel:
    """The model of a model folder, of a run folder, or of a Hugging Face folder of a known family.

    Raises:
        FolderError: a file is missing or damaged, or the family is unknown.
    """
    return box.load(model, choose_device(device, threads))
