"""The processes that train one model together, and what they say to each other.

Data parallelism (Goyal et al. 2017): every process has the whole model and its own share of each batch;
gradients are summed before the step, so all take the same one. A group of one says nothing to anyone.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.distributed.rank import Rank
from regard.distributed.rendezvous import MEETING, shared_store

PATIENCE = timedelta(hours=6)  # the others wait while the first prepares and validates


@dataclass(frozen=True, kw_only=True)
class Group:
    """This process's place (`rank`, from 0) among `size` processes."""

    rank: int = 0
    size: int = 1
    channel: Any = None  # torch's process group
    store: Any = None  # torch's store of what they leave for each other, by name

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Each tensor becomes its sum over all processes, in place; in one message, in one order."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat, group=self.channel)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def largest(self, number: int) -> int:
        """The largest of the numbers that the processes bring."""
        if self.size == 1:
            return number
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.channel)
        return int(found)

    def from_first(self, value: Any) -> Any:
        """What the first process brings, for all; plain data that JSON holds."""
        return self.all_values(value if self.is_first else None)[0]

    def all_values(self, value: Any) -> list[Any]:
        """What each process brings, in order of rank; plain data that JSON holds."""
        if self.size == 1:
            return [value]
        mine = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(mine)]), group=self.channel)
        longest = max(int(length) for length in lengths)
        room = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(room, torch.cat([mine, mine.new_zeros(longest - len(mine))]), group=self.channel)
        texts = [bytes(text[: int(length)].tolist()) for text, length in zip(room, lengths, strict=True)]
        return [json.loads(text) for text in texts]

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """The first process goes through the block before the others do."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.size > 1:
            self.largest(0)  # not torch's barrier, which may want to meet on GPUs


SINGLE = Group()


def join(place: Rank) -> Group:
    """Meet the other processes, each of which calls this.

    They talk by gloo about what is in main memory, and by NCCL about what is on their GPUs.
    """
    if place.size == 1:
        return SINGLE
    store = shared_store(place)
    on_gpus = torch.cuda.is_available() and dist.is_nccl_available()
    backend = "cpu:gloo,cuda:nccl" if on_gpus else "gloo"
    dist.init_process_group(backend, store=store, rank=place.rank, world_size=place.size, timeout=MEETING)
    return Group(rank=place.rank, size=place.size, channel=dist.new_group(timeout=PATIENCE), store=store)


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
