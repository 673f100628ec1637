"""Reads and writes named tensors (safetensors), and restores them into a model."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from regard.errors import FolderError, RunError, did_you_mean

METADATA = {"format": "pt"}  # only one key: the order of several is not deterministic


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] = METADATA) -> None:
    """Writes `tensors` as a safetensors file; the same tensors give the same bytes.

    Raises:
        OSError: the disk failed.
        RunError: the library refuses the tensors.
    """
    plain: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        plain[name] = tensor.clone() if storage in storages else tensor  # the library refuses shared memory
        storages.add(storage)
    try:
        safetensors.torch.save_file(plain, os.fspath(path), dict(metadata))
    except SafetensorError as error:  # the error number is only in its text
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise RunError(f"{path.name}: {error}") from error
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a safetensors file into memory; FolderError if it is missing or damaged."""
    with tensor_errors(path):
        return safetensors.torch.load_file(os.fspath(path), backend="pread")


@contextmanager
def tensor_errors(path: Path) -> Iterator[None]:
    """A context that turns errors of reading a safetensors file into a FolderError with its path."""
    try:
        yield
    except FileNotFoundError as error:
        hint = "put the file back where it was, or use another checkpoint"
        raise FolderError(f"{path} is missing", hint) from error
    except OSError as error:
        hint = "check that you may read the file, and the disk that it is on"
        raise FolderError(f"{path}: {error.strerror or error}", hint) from error
    except SafetensorError as error:
        hint = "the file is damaged or has another format: copy it again, or use another checkpoint"
        raise FolderError(f"{path}: {' '.join(str(error).split())}", hint) from error


def refuse_non_finite(file: str, tensors: Mapping[str, Tensor]) -> None:
    """Raises a RunError if a tensor has NaN or infinity, before it is written."""
    for name in sorted(tensors):
        tensor = tensors[name]
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise RunError(
                f"{file} was not saved: {name!r} has NaN or infinity",
                "what was saved before is intact: resume from it with a lower learning rate",
            )


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's weights by name; of tied weights only the first name in sorted order."""
    tensors = model.state_dict()
    return {names[0]: tensors[names[0]] for names in _tied(tensors)}


def tied_names(model: nn.Module) -> list[list[str]]:
    """The names of each weight: several if it is tied, of which `model_tensors` has the first."""
    return _tied(model.state_dict())


def half(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The floating-point tensors in float16, for a small file; `restore_model` converts them back.

    Raises:
        RunError: a number does not fit into float16.
    """
    halves = {name: each.half() if each.is_floating_point() else each for name, each in tensors.items()}
    for name, tensor in halves.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise RunError(f"{name!r} does not fit into float16", "store the model in float32")
    return halves


def restore_model(model: nn.Module, tensors: Mapping[str, Tensor], where: str = "the weights") -> None:
    """Copies `tensors` into `model`, of which they must be all weights, tied ones under any of their names.

    Other floating-point types are converted. `where` is the file's name for messages.

    Raises:
        FolderError: a weight is missing, left over, not finite or of another shape; the model is unchanged.
    """
    own = model.state_dict()
    for names in _tied(own):
        stored = {name: tensors[name] for name in names if name in tensors}
        _check_weight(where, names[0], own[names[0]], stored)
    if unexpected := sorted(set(tensors) - set(own)):
        raise FolderError(
            f"{where}: the model has no weight {unexpected[0]!r} {list(tensors[unexpected[0]].shape)}",
            did_you_mean(unexpected[0], own),
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def _check_weight(where: str, name: str, own: Tensor, stored: Mapping[str, Tensor]) -> None:
    shape, hint = list(own.shape), "these weights belong to another config.json"
    if not stored:
        raise FolderError(f"{where}: {name!r} {shape} is missing", hint)
    if len(stored) > 1:
        raise FolderError(f"{where}: {' and '.join(map(repr, stored))} are one tensor in the model", hint)
    ((found, tensor),) = stored.items()
    if list(tensor.shape) != shape:
        raise FolderError(f"{where}: {found!r} is {list(tensor.shape)}, the model's is {shape}", hint)
    if tensor.is_floating_point() != own.is_floating_point():
        raise FolderError(f"{where}: {found!r} is {tensor.dtype}, the model's is {own.dtype}", hint)
    if tensor.is_floating_point() and not tensor.isfinite().all():
        raise FolderError(f"{where}: {found!r} has NaN or infinity", "use another checkpoint")


def _tied(tensors: Mapping[str, Tensor]) -> list[list[str]]:
    """The names of each tensor in sorted order; tensors with the same memory are one."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name in sorted(tensors):
        groups.setdefault(_memory_key(name, tensors[name]), []).append(name)
    return list(groups.values())


def _memory_key(name: str, tensor: Tensor) -> tuple[object, ...]:
    """What only tied tensors have in common."""
    if isinstance(shard := getattr(tensor, "_local_tensor", None), Tensor):
        tensor = shard  # this process's rows of a tensor that is sharded over processes
    if tensor.numel() == 0:  # all empty tensors have address 0
        return (name,)
    return (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
