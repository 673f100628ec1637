"""Tables of tensor names: which tensors of a Hugging Face file make which of ours, in both directions."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import FolderError, RunError

Shapes = Mapping[str, torch.Size]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A tensor of ours and its counterpart in a file: one tensor, or several that are stacked in this order.

    `widths`: the rows of each of several tensors. `transposed`: the file has inputs before outputs. `shape`:
    the shape in the file. `offset`: what is added to the numbers of the file. `heads`: the number of
    heads, if the file has query, key and value head by head; ours has all queries, then keys, then values.
    """

    ours: str
    hf: tuple[str, ...]
    widths: tuple[int, ...] = ()
    transposed: bool = False
    shape: tuple[int, ...] | None = None
    offset: float = 0.0
    heads: int = 0

    def shapes(self, own: torch.Size) -> list[torch.Size]:
        """The shapes of the file's tensors, for ours of shape `own`."""
        if self.shape is not None:
            return [torch.Size(self.shape)]
        parts = [torch.Size((rows, *own[1:])) for rows in self.widths or own[:1]]
        return [torch.Size(reversed(part)) for part in parts] if self.transposed else parts

    def read(self, parts: Sequence[Tensor], own: torch.Size) -> Tensor:
        """Our tensor, made of the file's tensors."""
        parts_in_order = [part.T if self.transposed else part for part in parts]
        whole = torch.cat(parts_in_order) if len(parts_in_order) > 1 else parts_in_order[0]
        if self.heads:
            whole = whole.unflatten(0, (self.heads, 3, -1)).transpose(0, 1)
        whole = whole.reshape(own).contiguous()
        return whole + self.offset if self.offset else whole

    def write(self, own: Tensor) -> list[Tensor]:
        """The file's tensors, made of ours."""
        own = own - self.offset if self.offset else own
        if self.heads:
            own = own.unflatten(0, (3, self.heads, -1)).transpose(0, 1).flatten(0, 2)
        if self.shape is not None:
            return [own.reshape(self.shape).contiguous()]
        parts = own.split(self.widths) if self.widths else (own,)
        return [(part.T if self.transposed else part).contiguous() for part in parts]


def same(ours: str, hf: str, *, transposed: bool = False) -> Entry:
    """An entry for a tensor with one counterpart."""
    return Entry(ours=ours, hf=(hf,), transposed=transposed)


def linear(ours: str, hf: str, *, bias: bool = True) -> list[Entry]:
    """Entries for the weight and the bias of a linear layer or a norm."""
    return [same(f"{ours}.{part}", f"{hf}.{part}") for part in (("weight", "bias") if bias else ("weight",))]


def stacked_tensors(ours: str, hf: Sequence[str], widths: Sequence[int], *, bias: bool = True) -> list[Entry]:
    """Entries for several linear layers that are one layer of ours, such as query, key and value."""
    return [
        Entry(ours=f"{ours}.{part}", hf=tuple(f"{each}.{part}" for each in hf), widths=tuple(widths))
        for part in (("weight", "bias") if bias else ("weight",))
    ]


def read_names(
    table: Sequence[Entry], tensors: Mapping[str, Tensor], own: Shapes, *, where: str
) -> dict[str, Tensor]:
    """Converts the tensors of a file to ours; every tensor of the file is used exactly once.

    Raises:
        FolderError: a tensor is missing, left over, or has another shape.
    """
    refuse_gaps(table, own)
    needed = [name for entry in table for name in entry.hf]
    unused = sorted(set(tensors) - set(needed))
    for entry in table:
        for name, shape in zip(entry.hf, entry.shapes(own[entry.ours]), strict=True):
            _check(name, tensors.get(name), shape, entry, own[entry.ours], unused, tensors, where)
    if unused:
        raise FolderError(
            f"{where}: the model has no weight {unused[0]!r} {list(tensors[unused[0]].shape)}"
            + (f", nor {len(unused) - 1} others" if unused[1:] else ""),
            "config.json describes another model than the weights",
        )
    return {
        entry.ours: entry.read([tensors[name].float() for name in entry.hf], own[entry.ours])
        for entry in table
    }


def write_names(table: Sequence[Entry], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Converts our tensors to those of a file; a bias that our model does not have is written as zeros."""
    written: dict[str, Tensor] = {}
    for entry in table:
        own = tensors.get(entry.ours)
        if own is None:
            own = _zeros(entry, tensors)
        written.update(zip(entry.hf, entry.write(own), strict=True))
    if unused := sorted(set(tensors) - {entry.ours for entry in table}):
        raise RunError(f"{unused[0]!r} {list(tensors[unused[0]].shape)} has no counterpart in this family")
    return written


def refuse_gaps(table: Iterable[Entry], own: Shapes) -> None:
    """Asserts that the table has each of our tensors once."""
    names = [entry.ours for entry in table]
    assert len(set(names)) == len(names), sorted(names)
    assert set(names) == set(own), sorted(set(names) ^ set(own))


def renamed(tensors: Mapping[str, Tensor], changes: Sequence[tuple[str, str]]) -> dict[str, Tensor]:
    """Renames tensors: in each name, every pattern is replaced by its replacement.

    Raises:
        FolderError: two tensors get the same name.
    """
    found: dict[str, Tensor] = {}
    for old, tensor in tensors.items():
        new = old
        for pattern, replacement in changes:
            new = re.sub(pattern, replacement, new)
        if new in found:
            raise FolderError(f"two tensors have the name {new!r}", "use another checkpoint")
        found[new] = tensor
    return found


def _check(
    name: str,
    tensor: Tensor | None,
    shape: torch.Size,
    entry: Entry,
    own: torch.Size,
    unused: Sequence[str],
    tensors: Mapping[str, Tensor],
    where: str,
) -> None:
    wanted = f"{list(shape)}, the source of {entry.ours} {list(own)}"
    if tensor is None:
        leftover = f"; {unused[0]!r} {list(tensors[unused[0]].shape)} is left over" if unused else ""
        raise FolderError(
            f"{where}: {name!r} {wanted}, is missing{leftover}", "these weights belong to another config.json"
        )
    if tensor.shape != shape:
        raise FolderError(
            f"{where}: {name!r} is {list(tensor.shape)}, not {wanted}",
            "these weights belong to another config.json",
        )
    if not tensor.is_floating_point():
        raise FolderError(f"{where}: {name!r} is {tensor.dtype}, not floating point", "use another file")
    if not tensor.isfinite().all():
        raise FolderError(f"{where}: {name!r} has NaN or infinity", "use another checkpoint")


def _zeros(entry: Entry, tensors: Mapping[str, Tensor]) -> Tensor:
    """A zero bias for the layer of a missing bias."""
    weight = tensors.get(re.sub(r"\bbias$", "weight", entry.ours))
    assert entry.ours.endswith("bias"), entry.ours
    assert weight is not None, entry.ours
    return weight.new_zeros(weight.shape[:1])
