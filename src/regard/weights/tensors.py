"""Named tensors <-> safetensors files: finite when written, whole when read."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from regard.errors import FolderError, RunError

METADATA = {"format": "pt"}  # one key at most: the order of several is not stable


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write `tensors`, moved to the CPU. The same tensors give the same bytes. Raises OSError."""
    plain: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        plain[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    try:
        safetensors.torch.save_file(plain, os.fspath(path), METADATA)
    except SafetensorError as error:  # it has lost the number, but its text holds it
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise RunError(f"{path.name}: {error}") from error
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, in memory of their own."""
    hint = "the file is damaged or of another kind: copy it anew, or use another checkpoint"
    try:
        return safetensors.torch.load_file(os.fspath(path), backend="pread")
    except OSError as error:
        raise FolderError(f"{path}: {error.strerror or error}", hint) from error
    except SafetensorError as error:
        raise FolderError(f"{path}: {' '.join(str(error).split())}", hint) from error


def refuse_non_finite(file: str, tensors: Mapping[str, Tensor]) -> None:
    """Nothing with a NaN or an infinity in it is ever committed to disk."""
    for name in sorted(tensors):
        tensor = tensors[name]
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise RunError(
                f"{file} was not saved: {name!r} holds NaN or infinity",
                "what was saved before is untouched: resume from it with a lower learning rate",
            )


def once(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without repeats: of names that share one memory, the first in sorted order stays."""
    kept: dict[tuple[object, ...], str] = {}
    for name in sorted(tensors):
        kept.setdefault(_place(name, tensors[name]), name)
    return {name: tensors[name] for name in kept.values()}


def ties(tensors: Mapping[str, Tensor]) -> list[list[str]]:
    """The names in sorted order, those that share one memory together."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name in sorted(tensors):
        groups.setdefault(_place(name, tensors[name]), []).append(name)
    return list(groups.values())


def _place(name: str, tensor: Tensor) -> tuple[object, ...]:
    if tensor.numel() == 0:
        return (name,)
    return (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
