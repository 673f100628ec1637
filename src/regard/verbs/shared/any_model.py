"""Opening the `model` argument of a verb: a folder, a loaded model, or None for the included model."""

import copy
import dataclasses
from pathlib import Path

from regard.errors import UserError
from regard.verbs.shared.device import choose_device
from regard.verbs.shared.model_loading import load_named_model
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.weights.model_folder import LoadedModel

AnyModel = str | Path | LoadedModel


def open_model(model: AnyModel | None, runtime: Runtime = DEFAULT_RUNTIME) -> LoadedModel:
    """The model on the device of this runtime; a loaded model stays on its device.

    A runtime that changes the weights gets a copy of a loaded model.

    Raises:
        UserError: a loaded model is on another device than the runtime's. FolderError: see
        `load_named_model`.
    """
    device = choose_device(runtime)
    if not isinstance(model, LoadedModel):
        return load_named_model(model, device)
    current = model.model.device.type
    if runtime.device not in ("auto", current):
        raise UserError(
            f"device is {runtime.device}, but this model is loaded on {current}",
            f"load it there: regard.load(..., device={runtime.device!r})",
        )
    if not runtime.changes_model:
        return model
    return dataclasses.replace(model, model=copy.deepcopy(model.model))
