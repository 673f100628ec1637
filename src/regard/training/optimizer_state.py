"""The state of an optimiser as named tensors: what a checkpoint has of it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import FolderError, RunError
from regard.training.registered_optimizers import is_own
from regard.training.trainable import trained_parameters

# what is no tensor is saved as one, and its name says what it was: `weight/step#int`
NUMBERS: dict[str, tuple[type, torch.dtype]] = {
    "bool": (bool, torch.bool),
    "int": (int, torch.int64),
    "float": (float, torch.float64),
}
SET_BY_TRAINER = ("params", "names", "lr", "scale")


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser state as tensors named `parameter/slot`.

    Of a registered optimiser also the numbers of its groups, named `#group/key`: some count updates there.

    Raises:
        RunError: a registered optimiser has something in its state that is neither a tensor nor a number.
    """
    own = {
        f"{name}/{key}": value
        for name, parameter in trained_parameters(model)
        for slot, found in optimizer.state.get(parameter, {}).items()
        for key, value in _as_tensor(parameter, slot, found)
    }
    return own if is_own(optimizer) else {**own, **_group_tensors(optimizer)}


def _as_tensor(weight: Tensor | None, slot: str, value: Any) -> list[tuple[str, Tensor]]:
    """The key of a slot and its value as a tensor; nothing for None."""
    if isinstance(value, Tensor):
        if hasattr(weight, "placements") and value.ndim and not hasattr(value, "placements"):
            raise _cannot_be_saved(
                slot, "a tensor that FSDP has not divided", "set distributed.strategy = 'ddp'"
            )
        return [(slot, value)]
    if value is None:
        return []
    for kind, (number, dtype) in NUMBERS.items():
        if type(value) is number:
            return [(f"{slot}#{kind}", torch.tensor(value, dtype=dtype))]
    raise _cannot_be_saved(slot, type(value).__name__, "keep tensors and numbers in its state")


def _cannot_be_saved(slot: object, what: str, hint: str) -> RunError:
    return RunError(f"the state of the optimiser has {slot!r}, {what}, which cannot be saved", hint)


def _group_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"#{number}/{key}": tensor
        for number, group in enumerate(optimizer.param_groups)
        for name, value in group.items()
        if name not in SET_BY_TRAINER and isinstance(value, bool | int | float | Tensor)
        for key, tensor in _as_tensor(None, name, value)
    }


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restores the state that `optimizer_tensors` returned.

    Raises:
        FolderError: a tensor belongs to no parameter, or has another shape.
    """
    parameters = dict(trained_parameters(model))
    optimizer.state.clear()  # before the first step the state is empty
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition("/")
        slot, _, kind = key.partition("#")
        if name.startswith("#"):
            _restore_group(optimizer, int(name[1:]), slot, _value(value, kind))
            continue
        if name not in parameters:
            raise FolderError(
                f"optimizer state for {name!r}, which the model lacks", "resume with the same recipe"
            )
        parameter = parameters[name]
        if is_own(optimizer) and value.ndim and value.shape != parameter.shape:
            raise FolderError(
                f"optimizer state of {name} is {tuple(value.shape)}, not {tuple(parameter.shape)}",
                "resume with the same recipe",
            )
        # PyTorch counts steps on the processor, unless the whole update is one operation
        on_cpu = value.ndim == 0 and not optimizer.defaults.get("fused")
        device = torch.device("cpu") if on_cpu else parameter.device
        optimizer.state[parameter][slot] = _value(value, kind) if kind else value.clone().to(device)


def _value(value: Tensor, kind: str) -> Any:
    return NUMBERS[kind][0](value.item()) if kind else value.clone()


def _restore_group(optimizer: torch.optim.Optimizer, number: int, key: str, value: Any) -> None:
    groups = optimizer.param_groups
    if number >= len(groups) or key not in groups[number]:
        raise FolderError(
            f"optimizer state of group {number}: {key!r}, which the optimiser lacks",
            "resume with the same recipe, and the same version of what registers the optimiser",
        )
    groups[number][key] = value
