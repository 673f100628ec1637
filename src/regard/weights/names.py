"""Names of a family's tensors in files and in our models: a whole table that is read both ways."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import FolderError, RunError

Shapes = Mapping[str, torch.Size]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One tensor of ours and what it is in a file: a tensor, or several that are stacked in this order.

    `widths` are the rows of each of several; `transposed`: the file has inputs before outputs; `shape`:
    the file has these axes.
    """

    ours: str
    theirs: tuple[str, ...]
    widths: tuple[int, ...] = ()
    transposed: bool = False
    shape: tuple[int, ...] | None = None

    def shapes(self, own: torch.Size) -> list[torch.Size]:
        """Those of `theirs`, for ours of shape `own`."""
        if self.shape is not None:
            return [torch.Size(self.shape)]
        parts = [torch.Size((rows, *own[1:])) for rows in self.widths or own[:1]]
        return [torch.Size(reversed(part)) for part in parts] if self.transposed else parts

    def read(self, parts: Sequence[Tensor], own: torch.Size) -> Tensor:
        """Ours, made of theirs."""
        turned = [part.T if self.transposed else part for part in parts]
        return (torch.cat(turned) if len(turned) > 1 else turned[0]).reshape(own).contiguous()

    def write(self, own: Tensor) -> list[Tensor]:
        """Theirs, made of ours."""
        if self.shape is not None:
            return [own.reshape(self.shape).contiguous()]
        parts = own.split(self.widths) if self.widths else (own,)
        return [(part.T if self.transposed else part).contiguous() for part in parts]


def same(ours: str, theirs: str, *, transposed: bool = False) -> Entry:
    """A tensor that has one counterpart."""
    return Entry(ours=ours, theirs=(theirs,), transposed=transposed)


def linear(ours: str, theirs: str, *, bias: bool = True) -> list[Entry]:
    """The weight of a linear map or a norm, and its bias."""
    return [
        same(f"{ours}.{part}", f"{theirs}.{part}") for part in (("weight", "bias") if bias else ("weight",))
    ]


def stacked(ours: str, theirs: Sequence[str], widths: Sequence[int], *, bias: bool = True) -> list[Entry]:
    """Linear maps of one input, which are one of ours."""
    return [
        Entry(ours=f"{ours}.{part}", theirs=tuple(f"{each}.{part}" for each in theirs), widths=tuple(widths))
        for part in (("weight", "bias") if bias else ("weight",))
    ]


def read_names(
    table: Sequence[Entry], tensors: Mapping[str, Tensor], own: Shapes, *, where: str
) -> dict[str, Tensor]:
    """Our tensors, made of those of a file; each of the file's is used, and each of ours is made, once.

    Raises:
        FolderError: a tensor is missing, is left over, or has another shape; both shapes are named.
    """
    refuse_gaps(table, own)
    needed = [name for entry in table for name in entry.theirs]
    spare = sorted(set(tensors) - set(needed))
    for entry in table:
        for name, shape in zip(entry.theirs, entry.shapes(own[entry.ours]), strict=True):
            _check(name, tensors.get(name), shape, entry, own[entry.ours], spare, tensors, where)
    if spare:
        raise FolderError(
            f"{where}: {spare[0]!r} {list(tensors[spare[0]].shape)} has no place in the model"
            + (f", nor have {len(spare) - 1} others" if spare[1:] else ""),
            "config.json describes another model than the weights",
        )
    return {
        entry.ours: entry.read([tensors[name].float() for name in entry.theirs], own[entry.ours])
        for entry in table
    }


def write_names(table: Sequence[Entry], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file, made of ours; a bias that our model does not have is written as zeros."""
    written: dict[str, Tensor] = {}
    for entry in table:
        own = tensors.get(entry.ours)
        if own is None:
            own = _zeros(entry, tensors)
        written.update(zip(entry.theirs, entry.write(own), strict=True))
    if left := sorted(set(tensors) - {entry.ours for entry in table}):
        raise RunError(f"{left[0]!r} {list(tensors[left[0]].shape)} has no name in a file of this family")
    return written


def refuse_gaps(table: Iterable[Entry], own: Shapes) -> None:
    """A table that is not whole is a mistake of ours, not of a file."""
    names = [entry.ours for entry in table]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    assert set(names) == set(own), sorted(set(names) ^ set(own))


def renamed(tensors: Mapping[str, Tensor], changes: Sequence[tuple[str, str]]) -> dict[str, Tensor]:
    """`tensors` by other names: in each, every pattern is replaced by what stands beside it.

    Raises:
        FolderError: two tensors would have one name.
    """
    found: dict[str, Tensor] = {}
    for old, tensor in tensors.items():
        new = old
        for pattern, replacement in changes:
            new = re.sub(pattern, replacement, new)
        if new in found:
            raise FolderError(f"two tensors are called {new!r}", "use another checkpoint")
        found[new] = tensor
    return found


def _check(
    name: str,
    tensor: Tensor | None,
    shape: torch.Size,
    entry: Entry,
    own: torch.Size,
    spare: Sequence[str],
    tensors: Mapping[str, Tensor],
    where: str,
) -> None:
    wanted = f"{list(shape)}, of which {entry.ours} {list(own)} is made"
    if tensor is None:
        left = f"; {spare[0]!r} {list(tensors[spare[0]].shape)} is left over" if spare else ""
        raise FolderError(
            f"{where}: {name!r} {wanted}, is missing{left}", "these weights belong to another config.json"
        )
    if tensor.shape != shape:
        raise FolderError(
            f"{where}: {name!r} is {list(tensor.shape)}, not {wanted}",
            "these weights belong to another config.json",
        )
    if not tensor.is_floating_point():
        raise FolderError(
            f"{where}: {name!r} is {tensor.dtype}, no floating-point number", "use another file"
        )
    if not tensor.isfinite().all():
        raise FolderError(f"{where}: {name!r} holds NaN or infinity", "use another checkpoint")


def _zeros(entry: Entry, tensors: Mapping[str, Tensor]) -> Tensor:
    """The bias beside a weight."""
    weight = tensors.get(re.sub(r"\bbias$", "weight", entry.ours))
    assert entry.ours.endswith("bias"), entry.ours
    assert weight is not None, entry.ours
    return weight.new_zeros(weight.shape[:1])
