"""A model as verbs take it: a folder, what `regard.load` gives, or nothing for the model in the box."""

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
    """The model, on this device; one that is loaded already is used as it is, where it is.

    With another `precision` than float32, which changes a model, it is a copy: what the caller holds stays.

    Raises:
        UserError: a loaded model is on another device than is asked for. FolderError: see `box.load`.
    """
    chosen = choose_device(device, threads)
    if not isinstance(model, LoadedModel):
        return load(model, chosen)
    here = model.model.device.type
    if device not in ("auto", here):
        raise UserError(
            f"device is {device}, but this model is loaded on {here}",
            f"load it there: regard.load(..., device={device!r})",
        )
    if precision == "float32":
        return model
    return dataclasses.replace(model, model=copy.deepcopy(model.model))
