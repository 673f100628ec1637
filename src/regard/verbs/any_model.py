"""Opening the `model` argument of a verb: a folder, a loaded model, or None for the included model."""

import copy
import dataclasses
from pathlib import Path

from regard.errors import UserError
from regard.verbs.box import load
from regard.verbs.device import choose_device
from regard.weights.model_folder import LoadedModel

AnyModel = str | Path | LoadedModel


def open_model(
    model: AnyModel | None,
    device: str = "auto",
    threads: int | None = None,
    *,
    precision: str = "float32",
) -> LoadedModel:
    """The model, loaded on `device`; a loaded model is returned as it is.

    With another `precision` than float32 a copy of a loaded model is returned, since the caller changes it.

    Raises:
        UserError: a loaded model is on another device than `device`. FolderError: see `box.load`.
    """
    chosen = choose_device(device, threads)
    if not isinstance(model, LoadedModel):
        return load(model, chosen)
    current = model.model.device.type
    if device not in ("auto", current):
        raise UserError(
            f"device is {device}, but this model is loaded on {current}",
            f"load it there: regard.load(..., device={device!r})",
        )
    if precision == "float32":
        return model
    return dataclasses.replace(model, model=copy.deepcopy(model.model))
