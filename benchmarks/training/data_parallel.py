"""torch.nn.Transformer in two processes, by DistributedDataParallel: the reference of regard's two workers.

Run as a program, this file is the second process.
"""

import json
import os
import sys
from contextlib import ExitStack
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from benchmarks.common import products
from benchmarks.training.plain import Plain
from regard.distributed.group import Group
from regard.distributed.rank import own_rank
from regard.distributed.workers import workers as started
from regard.errors import RegardError


class TwoProcesses(Plain):
    """The plain loop, each process with its share of every batch; gradients are averaged by PyTorch."""

    def __init__(self, *, work: str, dropout: str, threads: int, small: bool) -> None:
        settings = {"work": work, "dropout": dropout, "threads": threads, "small": small}
        matmul = torch.get_float32_matmul_precision()
        command = ["-m", "benchmarks.training.data_parallel", json.dumps(settings), matmul]
        self._stack = ExitStack()
        group = self._stack.enter_context(started(own_rank(), 2, command))
        self._begin(settings, group)

    def _begin(self, settings: dict[str, Any], group: Group) -> None:
        super().__init__(**settings)
        self.model = DistributedDataParallel(self.model)
        self._shares = iter(self._task.loader(group))

    def round(self, updates: int) -> dict[str, Any]:
        """Train on this process's shares; counted are the whole batches, which another loader gives."""
        whole = [next(self._batches) for _ in range(updates)]
        seconds = self._timed([next(self._shares) for _ in range(updates)])
        return self._counts(whole, seconds)

    def loss(self) -> float:
        """The loss by the model itself, without the other process."""
        parallel = self.model
        self.model = parallel.module
        try:
            return super().loss()
        finally:
            self.model = parallel

    def close(self) -> None:
        """End without waiting for the other process, which ends when this one has."""
        os._exit(0)


class SecondProcess(TwoProcesses):
    """The same updates, together with the first process."""

    def __init__(self, settings: dict[str, Any], group: Group) -> None:
        self._begin(settings, group)

    def train(self) -> None:
        self.model.train()
        for batch in self._shares:
            self._update(batch)


def second_process(settings: dict[str, Any]) -> None:
    with started(own_rank(), 1, []) as group:
        SecondProcess(settings, group).train()


if __name__ == "__main__":
    products.use(sys.argv[2])
    try:
        second_process(json.loads(sys.argv[1]))
    except (RegardError, RuntimeError):
        sys.exit(0)  # the first process has ended
