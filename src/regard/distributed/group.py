"""The group of processes that train one model, and their collective operations.

Data parallelism (Goyal et al. 2017): every process has its own share of each batch; gradients are summed
before the step, so all processes take the same step. In a group of one process nothing is communicated.
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
from regard.distributed.rendezvous import RENDEZVOUS_TIMEOUT, shared_store

WAIT_TIMEOUT = timedelta(hours=6)  # the other processes wait while the first prepares and validates


@dataclass(frozen=True, kw_only=True)
class Group:
    """This process's `rank`, from 0, among `size` processes."""

    rank: int = 0
    size: int = 1
    process_group: Any = None  # torch's
    store: Any = None  # torch's key-value store, shared by the processes

    @property
    def is_first(self) -> bool:
        """True in the process of rank 0."""
        return self.rank == 0

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Sums each tensor over all processes, in place, with one all-reduce."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat, group=self.process_group)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def maximum(self, number: int) -> int:
        """The maximum of a number over all processes."""
        if self.size == 1:
            return number
        largest = torch.tensor(number)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.process_group)
        return int(largest)

    def broadcast(self, value: Any) -> Any:
        """The first process's value, in all processes; it must be JSON data."""
        return self.all_gather(value if self.is_first else None)[0]

    def all_gather(self, value: Any) -> list[Any]:
        """The values of all processes, in order of rank; they must be JSON data.

        torch's `all_gather_object` would read pickles.
        """
        if self.size == 1:
            return [value]
        encoded = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(encoded)]), group=self.process_group)
        longest = max(int(length) for length in lengths)
        padded = torch.cat([encoded, encoded.new_zeros(longest - len(encoded))])
        received = [torch.zeros_like(padded) for _ in range(self.size)]
        dist.all_gather(received, padded, group=self.process_group)
        texts = [bytes(text[: int(length)].tolist()) for text, length in zip(received, lengths, strict=True)]
        return [json.loads(text) for text in texts]

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """A context in which the first process does everything before the others begin."""
        if not self.is_first:
            self.barrier()
        yield
        if self.is_first:
            self.barrier()

    def barrier(self) -> None:
        """Waits until all processes have called this."""
        if self.size > 1:
            self.maximum(0)  # torch's own barrier may need GPUs


SINGLE = Group()


def join(process: Rank) -> Group:
    """Connects this process with the others, each of which calls this.

    They communicate by gloo for tensors in main memory, and by NCCL for tensors on GPUs.
    """
    if process.size == 1:
        return SINGLE
    store = shared_store(process)
    on_gpus = torch.cuda.is_available() and dist.is_nccl_available()
    backend = "cpu:gloo,cuda:nccl" if on_gpus else "gloo"
    dist.init_process_group(
        backend, store=store, rank=process.rank, world_size=process.size, timeout=RENDEZVOUS_TIMEOUT
    )
    process_group = dist.new_group(timeout=WAIT_TIMEOUT)
    return Group(rank=process.rank, size=process.size, process_group=process_group, store=store)


def leave() -> None:
    """Disconnects this process from its group."""
    if dist.is_initialized():
        dist.destroy_process_group()
