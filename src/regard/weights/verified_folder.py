"""A model folder that was verified: its files, as JSON and tensors."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.folder_file import checked_inside, read_file, refuse_beyond_total_memory
from regard.errors import FolderError
from regard.weights.folder import verify_folder
from regard.weights.saved_tensors import SavedTensors
from regard.weights.shards import shard_names
from regard.weights.strict_json import read_json
from regard.weights.tensors import read_tensors


@dataclass(frozen=True, kw_only=True)
class VerifiedFolder:
    """A model folder whose files have been verified; only the files of its manifest can be read."""

    path: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path, names: Collection[str] | None = None) -> "VerifiedFolder":
        """Verifies a folder; with `names`, only these files, and no others can be read from it.

        Raises:
            FolderError: the folder is missing or damaged.
        """
        path = Path(path).expanduser()
        return cls(path=path, manifest=verify_folder(path, names))

    @property
    def names(self) -> list[str]:
        """The names of the verified files."""
        return sorted(self.manifest["files"])

    def file(self, name: str) -> Path:
        """The path of a verified file; FolderError if there is none of this name."""
        if name not in self.manifest["files"]:
            raise FolderError(
                f"{self.path} has no {name}",
                f"its files are {', '.join(self.names)}: is it another kind of folder?",
            )
        return self.path / name

    def read_bytes(self, name: str) -> bytes:
        return read_file(self.file(name))

    def read_json(self, name: str) -> dict[str, Any]:
        return read_json(self.file(name))

    def has_tensors(self, name: str) -> bool:
        """True if it has a safetensors file of this name, or its shards."""
        return name in self.names or bool(shard_names(name, self.names))

    def tensor_files(self, name: str) -> list[Path]:
        """The safetensors file of this name, or its shards; FolderError if there is neither."""
        return [self.file(each) for each in shard_names(name, self.names) or [name]]

    def read_tensors(self, name: str) -> dict[str, Tensor]:
        """All tensors of a safetensors file, or of its shards."""
        if name in self.names:
            return read_tensors(checked_inside(self.file(name)))
        refuse_beyond_total_memory(self.tensor_files(name))
        return self.open_tensors(name).read_all()

    def open_tensors(self, name: str) -> SavedTensors:
        """The tensors of a safetensors file, or of its shards, to be read one by one or by rows."""
        return SavedTensors(self.tensor_files(name), sharded=name not in self.names)
