"""regard's trainer, objective and loader, as in `regard train`.

Run as a program, this file is the second worker of a contender with two.
"""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import products
from benchmarks.training.loop import held_out_loss
from benchmarks.training.steps import Steps, trainer_of
from benchmarks.work.work import work_of
from regard.distributed.group import Group
from regard.distributed.rank import own_rank
from regard.distributed.workers import workers as started
from regard.models.build import count_parameters


class Regard:
    """A contender of `workers` processes; its counts are sums over all of them."""

    def __init__(self, *, work: str, dropout: str, threads: int, small: bool, workers: int = 1) -> None:
        torch.set_num_threads(threads)
        self._work = work_of(work)
        self._task = self._work.training_task(dropout, small=small)
        settings = {"work": work, "dropout": dropout, "threads": threads, "small": small, "workers": workers}
        matmul = torch.get_float32_matmul_precision()
        command = ["-m", "benchmarks.training.regard_trainer", json.dumps(settings), matmul]
        self._stack = ExitStack()
        group = self._stack.enter_context(started(own_rank(), workers, command))
        places = [Group(rank=rank, size=group.size) for rank in range(group.size)]
        self._batches = [iter(self._task.loader(place)) for place in places]
        self._steps = Steps(self._task, group)
        self._stack.callback(self._steps.end)

    def round(self, updates: int) -> dict[str, Any]:
        """Train; counted are the batches that the trainer reads, which another loader gives once more."""
        counted = [next(batches) for _ in range(updates) for batches in self._batches]
        seconds = self._steps.run(updates)
        return {
            "seconds": sum(seconds),
            "tokens": sum(batch.num_targets for batch in counted),
            "gflop": sum(self._work.flop(self._task.config, batch) for batch in counted) / 1e9,
            "each": seconds,
        }

    def about(self) -> dict[str, Any]:
        return {"parameters": count_parameters(self._steps.trainer.model), "same_weights": True}

    def loss(self) -> float:
        model = self._steps.trainer.model
        return held_out_loss(self._task, model, lambda batch: self._work.nll(model, batch))

    def close(self) -> None:
        self._stack.close()


def second_worker(settings: dict[str, Any]) -> None:
    """Run the same updates together with the first worker, until it stops."""
    torch.set_num_threads(settings["threads"])
    task = work_of(settings["work"]).training_task(settings["dropout"], small=settings["small"])
    with started(own_rank(), 1, []) as group, tempfile.TemporaryDirectory() as folder:
        trainer_of(task, group, Path(folder), lambda: None).train()


if __name__ == "__main__":
    products.use(sys.argv[2])
    second_worker(json.loads(sys.argv[1]))
