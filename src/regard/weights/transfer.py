"""Weights of one model for another: those of every module that has the same name and the same shapes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import FolderError
from regard.weights.tensors import model_tensors


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What became of all weights, by name."""

    taken: tuple[str, ...]
    fresh: tuple[str, ...]  # of the model: nothing was there for them, and they are as they were
    left: tuple[str, ...]  # of the other model: the model has no place for them


@torch.no_grad()
def transfer(model: nn.Module, tensors: Mapping[str, Tensor], *, but: Collection[str] = ()) -> Transfer:
    """Copy `tensors` into `model` where they fit; a module gets all of its own weights or none of them.

    Those named in `but` do not fit, whatever their shapes: they mean something else.

    Raises:
        FolderError: nothing fits at all.
    """
    own = model_tensors(model)
    fits = {name: _fits(own[name], tensors.get(name)) and name not in but for name in own}
    broken = {_module(name) for name, fitting in fits.items() if not fitting}
    taken = tuple(name for name in own if _module(name) not in broken)
    if not taken:
        raise FolderError(
            "none of its weights fits this model, neither by name nor by shape",
            "leave out of [model] what says the model's size: the trained model brings it",
        )
    for name in taken:
        own[name].copy_(tensors[name])
    return Transfer(
        taken=taken,
        fresh=tuple(name for name in own if name not in taken),
        left=tuple(sorted(name for name in tensors if name not in taken)),
    )


def modules_of(names: Iterable[str], all_names: Iterable[str]) -> list[str]:
    """The fewest modules that have these weights and no others of `all_names`, in order."""
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
