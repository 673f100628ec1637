"""Tensors in a safetensors file or in its shards, read one at a time, whole or by rows."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from regard.data.folder_file import checked_inside
from regard.errors import FolderError
from regard.weights.shards import ROWS
from regard.weights.strict_json import DAMAGED_HINT, parse_json
from regard.weights.tensors import METADATA, tensor_errors

Shape = tuple[int, ...]


@dataclass(frozen=True)
class _Piece:
    """Rows of a tensor in an opened file, from row `first` on. A tensor without dimensions has one piece."""

    path: Path
    opened: Any  # safe_open
    shape: Shape
    first: int

    @property
    def last(self) -> int:
        """The row after the last."""
        return self.first + (self.shape[0] if self.shape else 0)

    def read(self, name: str) -> Tensor:
        with tensor_errors(self.path):
            return self.opened.get_tensor(name)

    def read_rows(self, name: str, first: int, last: int) -> Tensor:
        """The rows `first` to `last` - 1 of the tensor, as far as this file has them."""
        begin, end = max(first, self.first) - self.first, min(last, self.last) - self.first
        if begin >= end:  # the library refuses to slice a tensor without rows
            return (self.read_rows(name, self.first, self.first + 1) if self.shape[0] else self.read(name))[
                :0
            ]
        with tensor_errors(self.path):
            return self.opened.get_slice(name)[begin:end]

    def type_name(self, name: str) -> str:
        with tensor_errors(self.path):
            return self.opened.get_slice(name).get_dtype()


class SavedTensors:
    """The tensors of a file or of its shards by name. Nothing is in memory until it is read."""

    def __init__(self, paths: Sequence[Path], *, sharded: bool = False) -> None:
        """Reads the headers of the files; `sharded`: they are shards.

        Raises:
            FolderError: a file is damaged, or the rows in the shards are not each row of a tensor once.
        """
        self._shapes: dict[str, Shape] = {}
        self._pieces: dict[str, list[_Piece]] = {}
        for path in paths:
            self._add(path, sharded)
        for name, pieces in self._pieces.items():
            pieces.sort(key=lambda piece: (piece.first, piece.last))
            self._check(name, pieces)

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of each tensor."""
        return self._shapes

    def read_rows(self, name: str, first: int, last: int) -> Tensor:
        """The rows from `first` to before `last` of a tensor."""
        pieces = self._pieces[name]
        needed = [piece for piece in pieces if max(first, piece.first) < min(last, piece.last)]
        parts = [piece.read_rows(name, first, last) for piece in needed or pieces[:1]]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def read(self, name: str) -> Tensor:
        """A whole tensor."""
        if len(self._pieces[name]) == 1:
            return self._pieces[name][0].read(name)
        return self.read_rows(name, 0, self.shapes[name][0])

    def read_all(self) -> dict[str, Tensor]:
        """All tensors, whole."""
        return {name: self.read(name) for name in self.shapes}

    def write_whole(self, path: Path) -> None:
        """Writes all tensors as one safetensors file, with one of them in memory at a time.

        The library writes only tensors that are all in memory. The format is simple: the length of the header
        in 8 bytes, the header as JSON, the numbers. Larger types come first, so that all numbers are aligned.
        """
        types = {name: self._pieces[name][0].type_name(name) for name in self.shapes}
        sizes = {name: self._element_size(name) for name in self.shapes}
        order = sorted(self.shapes, key=lambda name: (-sizes[name], name))
        header: dict[str, Any] = {"__metadata__": METADATA}
        end = 0
        for name in order:
            begin, end = end, end + sizes[name] * math.prod(self.shapes[name])
            place = [begin, end]
            header[name] = {"dtype": types[name], "shape": self.shapes[name], "data_offsets": place}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
        text += b" " * (-len(text) % 8)
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                file.write(self.read(name).contiguous().reshape(-1).view(torch.uint8).numpy().data)

    def _element_size(self, name: str) -> int:
        """The bytes of a number of a tensor."""
        few = self.read_rows(name, 0, 0) if self.shapes[name] else self.read(name)
        return few.element_size()

    def _add(self, path: Path, sharded: bool) -> None:
        with tensor_errors(path):
            opened = safe_open(os.fspath(checked_inside(path)), "pt", backend="pread")
            names: list[str] = opened.keys()
            found = {name: tuple(opened.get_slice(name).get_shape()) for name in names}
            metadata = opened.metadata() or {}
        places = _places(path, metadata.get(ROWS), found) if sharded else {}
        for name, shape in found.items():
            first, full = places.get(name, (0, shape))
            if self._shapes.setdefault(name, full) != full:
                raise FolderError(
                    f"{path}: {name!r} has shape {list(full)}, in another shard {list(self._shapes[name])}",
                    DAMAGED_HINT,
                )
            self._pieces.setdefault(name, []).append(_Piece(path, opened, shape, first))

    def _check(self, name: str, pieces: Sequence[_Piece]) -> None:
        """Raises a FolderError unless the pieces have each row of the tensor once, in one type."""
        shape = self.shapes[name]
        begins = [*(piece.first for piece in pieces), shape[0] if shape else 0]
        ends = [0, *(piece.last for piece in pieces)]
        if begins != ends or (not shape and len(pieces) > 1):
            raise FolderError(
                f"{pieces[0].path}: the shards do not have each row of {name!r} once", DAMAGED_HINT
            )
        if len(types := {piece.type_name(name) for piece in pieces}) > 1:
            raise FolderError(
                f"{pieces[0].path}: {name!r} is {' and '.join(sorted(types))} in different shards",
                DAMAGED_HINT,
            )


def _places(path: Path, text: str | None, found: Mapping[str, Shape]) -> dict[str, tuple[int, Shape]]:
    """First row and full shape of each tensor of a shard, from its metadata."""
    if text is None:
        raise FolderError(f"{path} does not have {ROWS!r} in its metadata, as a shard has", DAMAGED_HINT)
    table = parse_json(text.encode("utf-8"), f"{path}: {ROWS}")
    if unmatched := sorted(set(table) ^ set(found)):
        raise FolderError(f"{path}: {ROWS!r} and the tensors differ in {unmatched[0]!r}", DAMAGED_HINT)
    places: dict[str, tuple[int, Shape]] = {}
    for name, shape in found.items():
        place = _place(table[name])
        if place is None or len(place[1]) != len(shape) or place[1][1:] != shape[1:]:
            raise FolderError(f"{path}: {ROWS!r} of {name!r} is not a first row and a shape", DAMAGED_HINT)
        places[name] = place
    return places


def _place(entry: object) -> tuple[int, Shape] | None:
    """First row and shape; None if the entry is something else."""
    match entry:
        case {"first": first, "shape": [*sizes], **unknown}:
            if not unknown and all(type(number) is int and number >= 0 for number in (first, *sizes)):
                return first, tuple(sizes)
    return None
