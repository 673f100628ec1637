"""The state of an optimiser as named tensors: what a checkpoint has of it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import FolderError
from regard.training.registered_optimizers import is_own
from regard.training.registered_state import restore_state, saved_state
from regard.training.trainable import trained_parameters

STRUCTURE = "optimizer.json"  # of a registered optimiser: its state, which names the tensors


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser state as tensors named `parameter/slot`.

    Raises:
        RunError: a registered optimiser has something in its state that cannot be saved.
    """
    if not is_own(optimizer):
        return saved_state(optimizer, dict(trained_parameters(model)))[0]
    return {
        f"{name}/{slot}": value
        for name, parameter in trained_parameters(model)
        for slot, value in optimizer.state.get(parameter, {}).items()
    }


def optimizer_files(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, bytes]:
    """The file that a checkpoint has besides the tensors: that of a registered optimiser."""
    if is_own(optimizer):
        return {}
    _, structure = saved_state(optimizer, dict(trained_parameters(model)))
    return {STRUCTURE: json.dumps(structure, indent=1).encode()}


def restore_optimizer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
    read_json: Callable[[str], dict[str, Any]] | None = None,
) -> None:
    """Restores the state that `optimizer_tensors` and `optimizer_files` returned.

    `read_json` reads one of the files; regard's own optimisers have none.

    Raises:
        FolderError: a tensor belongs to no parameter, or has another shape.
    """
    parameters = dict(trained_parameters(model))
    if not is_own(optimizer):
        assert read_json is not None
        restore_state(optimizer, parameters, tensors, read_json(STRUCTURE))
        return
    optimizer.state.clear()  # before the first step the state is empty
    for full_name, value in tensors.items():
        name, _, slot = full_name.rpartition("/")
        if name not in parameters:
            raise FolderError(
                f"optimizer state for {name!r}, which the model lacks", "resume with the same recipe"
            )
        if value.ndim and value.shape != parameters[name].shape:
            raise FolderError(
                f"optimizer state of {name} is {tuple(value.shape)}, not {tuple(parameters[name].shape)}",
                "resume with the same recipe",
            )
        is_on_cpu = slot == "step" and not optimizer.defaults.get("fused")
        device = torch.device("cpu") if is_on_cpu else parameters[name].device
        optimizer.state[parameters[name]][slot] = value.clone().to(device)
