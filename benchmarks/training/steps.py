"""regard's own Trainer, one update at a time: it runs in a thread and waits between two updates.

What is timed is all that an update costs in regard: reading the batch, the loss, the gradients and their
exchange, the optimiser, the checks and the bookkeeping. Validation and saving do nothing here.
"""

import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from regard.distributed.group import Group
from regard.distributed.replicated import ReplicatedModel
from regard.errors import Interrupted
from regard.models.build import build_model
from regard.training.share_objective import ShareObjective
from regard.training.trainer import Trainer
from regard.verbs.tasks.task import Task
from regard.weights.checkpoint import RunFolder

SEED = 1  # of the initial weights of all contenders


def trainer_of(task: Task, group: Group, run: Path, stop: Callable[[], int | None]) -> Trainer:
    """The trainer as `regard train` creates it, in a temporary run folder."""
    model = build_model(task.config, seed=SEED)
    return Trainer(
        model,
        ShareObjective(task.objective()),
        task.loader(group),
        task.recipe.training,
        RunFolder(run),
        {},
        validate=lambda model: {"loss": 0.0},
        report=lambda record: None,
        stop=stop,
        distributed=ReplicatedModel(model, group),
    )


class Steps:
    """A training run that pauses after each batch of updates until `run` is called again."""

    def __init__(self, task: Task, group: Group) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="regard-bench-")
        self._go, self._arrived = threading.Semaphore(0), threading.Semaphore(0)
        self._end = False
        self._failure: BaseException | None = None
        self.trainer = trainer_of(task, group, Path(self._folder.name), self._between)
        self._thread = threading.Thread(target=self._train, daemon=True)
        self._thread.start()
        self._wait()

    def run(self, updates: int) -> list[float]:
        """Run so many updates; returns the seconds of each."""
        return [self._timed() for _ in range(updates)]

    def end(self) -> None:
        """Stop the run."""
        self._end = True
        self._go.release()
        self._thread.join()
        self._folder.cleanup()

    def _timed(self) -> float:
        began = time.perf_counter()
        self._go.release()
        self._wait()
        return time.perf_counter() - began

    def _wait(self) -> None:
        self._arrived.acquire()
        if self._failure:
            raise self._failure

    def _between(self) -> int | None:
        """Called by the trainer between two updates; waits for the next call of `run`."""
        self._arrived.release()
        self._go.acquire()
        return signal.SIGTERM if self._end else None

    def _train(self) -> None:
        try:
            with suppress(Interrupted):
                self.trainer.train()
        except BaseException as error:  # noqa: BLE001, raised where it is waited for
            self._failure = error
            self._arrived.release()
