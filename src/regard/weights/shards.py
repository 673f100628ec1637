"""Tensors in shards: each process writes its rows of every tensor as a safetensors file of its own.

`model.safetensors` of a run whose processes hold parts is `model.shard-00001-of-00004.safetensors` and so on.
The metadata of a shard has one key, `rows`: JSON with the full shape of each tensor and the first of its rows
in this file. `saved_tensors.py` reads them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from regard.errors import FolderError
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import write_tensors

ROWS = "rows"  # the only metadata key of a shard: the order of several is not deterministic
SHARD = re.compile(r"(.+)\.shard-(\d{5})-of-(\d{5})\.safetensors")


@dataclass(frozen=True, kw_only=True)
class TensorPart:
    """The rows of a tensor of this shape that one process has, from row `first` on."""

    tensor: Tensor
    shape: tuple[int, ...]
    first: int


@dataclass(frozen=True)
class Shard:
    """The content of a shard: parts of tensors by name."""

    parts: Mapping[str, TensorPart]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors as they are written, without their places."""
        return {name: part.tensor for name, part in self.parts.items()}

    def write(self, path: Path) -> None:
        """Writes the shard; OSError if the disk failed."""
        rows = {
            name: {"first": part.first, "shape": list(part.shape)}
            for name, part in sorted(self.parts.items())
        }
        write_tensors(path, self.tensors, {ROWS: json_bytes(rows).decode("ascii")})


def shard_name(file: str, number: int, count: int) -> str:
    """The name of shard `number`, from 1, of the `count` shards of a safetensors file."""
    return f"{file.removesuffix('.safetensors')}.shard-{number:05d}-of-{count:05d}.safetensors"


def shard_names(file: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that are the shards of `file`, in order; empty if it has none.

    Raises:
        FolderError: a shard is missing, or there are shards of two numbers of processes.
    """
    found = [
        match
        for name in sorted(names)
        if (match := SHARD.fullmatch(name)) and f"{match[1]}.safetensors" == file
    ]
    if not found:
        return []
    count = int(found[-1][3])
    expected = [shard_name(file, number, count) for number in range(1, count + 1)]
    if wrong := sorted(set(expected) ^ {match[0] for match in found}):
        problem = "is missing" if wrong[0] in expected else f"is not one of {count} shards"
        raise FolderError(f"{wrong[0]} {problem}", "copy the folder again, or use another checkpoint")
    return expected
