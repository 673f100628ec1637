"""Copies weights from one model into another, for all modules with equal names and shapes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import FolderError
from regard.weights.tensors import model_tensors


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """The result of a transfer: names of weights."""

    taken: tuple[str, ...]  # copied
    fresh: tuple[str, ...]  # of the model, not copied
    unused: tuple[str, ...]  # of the other model, not used


@torch.no_grad()
def transfer(model: nn.Module, tensors: Mapping[str, Tensor], *, exclude: Collection[str] = ()) -> Transfer:
    """Copies `tensors` into `model` where names and shapes match.

    A module gets all of its own weights or none. Weights named in `exclude` are never copied.

    Raises:
        FolderError: no module matches.
    """
    own = model_tensors(model)
    fits = {name: _fits(own[name], tensors.get(name)) and name not in exclude for name in own}
    incomplete = {_module(name) for name, fitting in fits.items() if not fitting}
    taken = tuple(name for name in own if _module(name) not in incomplete)
    if not taken:
        raise FolderError(
            "none of its weights matches this model by name and shape",
            "remove the model's sizes from [model]: they are taken from the trained model",
        )
    for name in taken:
        own[name].copy_(tensors[name])
    return Transfer(
        taken=taken,
        fresh=tuple(name for name in own if name not in taken),
        unused=tuple(sorted(name for name in tensors if name not in taken)),
    )


def modules_of(names: Iterable[str], all_names: Iterable[str]) -> list[str]:
    """The fewest modules that contain exactly these weights of `all_names`, in order."""
    chosen, whole = set(names), set(all_names)
    found: dict[str, None] = {}
    for name in sorted(chosen):
        words = name.split(".")
        prefixes = [".".join(words[:count]) for count in range(1, len(words) + 1)]
        found[next(prefix for prefix in prefixes if _below(prefix, whole) <= chosen)] = None
    return list(found)


def _below(prefix: str, names: Collection[str]) -> set[str]:
    return {name for name in names if f"{name}.".startswith(f"{prefix}.")}


def _fits(own: Tensor, other: Tensor | None) -> bool:
    return other is not None and own.shape == other.shape and own.dtype == other.dtype


def _module(name: str) -> str:
    return name.rpartition(".")[0]
