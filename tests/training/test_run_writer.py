"""A folder that several processes write together is that of one process, complete or absent."""

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

from regard.distributed.group import Group
from regard.distributed.replicated import ReplicatedModel
from regard.training.run_writer import RunWriter
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import write_folder
from regard.weights.verified_folder import VerifiedFolder

TENSORS = {"a": torch.arange(10.0).view(5, 2), "b": torch.tensor(3.0)}
FILE = "model.safetensors"


@dataclass
class Shared:
    """What the threads of a group share."""

    size: int
    values: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self):
        self.barrier = threading.Barrier(self.size, timeout=20)


@dataclass(frozen=True, kw_only=True)
class Threads(Group):
    """A group whose processes are threads."""

    shared: Any = None

    def all_gather(self, value):
        self.shared.values[self.rank] = value
        self.shared.barrier.wait()
        found = [self.shared.values[rank] for rank in range(self.size)]
        self.shared.barrier.wait()
        return found

    def barrier(self):
        self.shared.barrier.wait()


class Rows(ReplicatedModel):
    """Each process has every `size`-th row; the first has what has no rows."""

    is_sharded = True

    def part(self, tensor):
        if tensor.ndim == 0:
            return (tensor, 0) if self.group.is_first else None
        rows = tensor.tensor_split(self.group.size)
        first = sum(len(each) for each in rows[: self.group.rank])
        return rows[self.group.rank], first


def write_together(path, size):
    shared, failed = Shared(size), []

    def one(rank):
        run = RunFolder(path)
        writer = RunWriter(run, Rows(nn.Linear(1, 1), Threads(rank=rank, size=size, shared=shared)))

        def write(files, beside):
            write_folder(path / "best", files, beside=beside)

        try:
            writer.write(write, {"config.json": b"{}"}, {FILE: writer.parts(TENSORS)})
            if not (path / "best").is_dir():
                failed.append(f"process {rank} continued before the folder was there")
        except BaseException as error:  # noqa: BLE001, the thread would lose it
            failed.append(repr(error))
            shared.barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    return VerifiedFolder.open(path / "best")


@pytest.mark.parametrize("size", [2, 3])
def test_each_process_writes_its_rows_and_the_folder_has_all(tmp_path, size):
    folder = write_together(tmp_path, size)
    shards = [f"model.shard-{number:05d}-of-{size:05d}.safetensors" for number in range(1, size + 1)]
    assert folder.names == sorted(["config.json", *shards])
    found = folder.read_tensors(FILE)
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())


def test_whole_tensors_are_written_by_the_first_process_alone(tmp_path):
    called = []
    for rank in (0, 1):
        writer = RunWriter(RunFolder(tmp_path), ReplicatedModel(nn.Linear(1, 1), Group(rank=rank, size=2)))
        parts = writer.parts(TENSORS)
        writer.write(lambda files, beside: called.append((files, beside)), {"x": b""}, {FILE: parts})
    [(files, beside)] = called
    assert beside is None
    assert files.keys() == {"x", FILE}
    assert files[FILE].keys() == TENSORS.keys()
