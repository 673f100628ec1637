"""Writes the folders of a run: the first process alone, or all processes, each the rows that it has."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from regard.data.os_errors import os_errors
from regard.distributed.distributed_model import DistributedModel
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import AllFiles, Entries, WriteBeside, write_files
from regard.weights.shards import Shard, TensorPart, shard_name

Parts = Mapping[str, TensorPart]
Write = Callable[[AllFiles, WriteBeside | None], object]  # `RunFolder.save` or `write_best` of a step


class RunWriter:
    """Writes folders whose tensors are distributed over processes. All processes call the same methods.

    If each process has a part of the model, it writes its rows as a shard into the folder while that is
    hidden, and sends their hashes to the first. The first writes all other files and makes the folder appear.
    So the folder is complete or absent, whichever process is killed.
    """

    def __init__(self, run: RunFolder, distributed: DistributedModel) -> None:
        self.run, self._distributed, self._group = run, distributed, distributed.group

    def parts(self, tensors: Mapping[str, Tensor]) -> dict[str, TensorPart]:
        """What this process saves of these tensors."""
        found = {name: self._distributed.part(tensor) for name, tensor in tensors.items()}
        return {
            name: TensorPart(tensor=part[0].detach(), shape=tuple(tensors[name].shape), first=part[1])
            for name, part in found.items()
            if part is not None
        }

    def write(self, write: Write, files: Mapping[str, bytes], tensors: Mapping[str, Parts]) -> None:
        """Writes `files` and `tensors`, parts of tensors by file, as one folder.

        It is on disk when this returns in the first process.
        """
        if not self._distributed.is_sharded:
            if self._group.is_first:
                whole = {file: Shard(parts).tensors for file, parts in tensors.items()}
                write({**files, **whole}, None)
            return
        shards = {
            shard_name(file, self._group.rank + 1, self._group.size): Shard(parts)
            for file, parts in tensors.items()
        }

        def beside(folder: Path | None) -> Entries:
            name = self._group.broadcast(folder and os.path.relpath(folder, self.run.path))
            with os_errors("save", self.run.path / name):
                written = write_files(self.run.path / name, shards)
            return {name: entry for each in self._group.all_gather(written) for name, entry in each.items()}

        if self._group.is_first:
            write(files, beside)
        else:
            beside(None)
        self._group.barrier()  # all may read the folder now
