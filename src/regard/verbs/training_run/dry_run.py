"""Dry run of a recipe: check its data and shapes, and estimate the run's time and memory."""

import dataclasses
import itertools
import math
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from regard import console
from regard.counted import counted
from regard.data.batch import Batch
from regard.data.loader import Loader
from regard.errors import RunError, Stopped
from regard.models.adapters import merged
from regard.models.model import Model
from regard.training.objective import Objective
from regard.training.pace import Update, validations_after
from regard.training.products import choose_precision, matmul_precision
from regard.training.rate_warning import rate_warning
from regard.training.threads import threads as with_threads
from regard.training.trainer import Trainer
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Say, Task
from regard.verbs.training_run.final_scores import scores_of
from regard.verbs.training_run.initial_model import begin
from regard.verbs.training_run.recipe_data import same_files
from regard.verbs.training_run.teacher import load_teacher, training_objective
from regard.verbs.training_run.thread_choice import measured_threads
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import model_files

EXAMPLES = 20_000  # training examples of a dry run; all data are read
SEARCHED_BATCHES = 500  # to find the largest batches among
WARM_UP = 3  # updates that are not timed: two with the largest batches, and the slow first one
UPDATES, SECONDS = 20, 10.0  # to time at most; at least one update is timed


def try_recipe(
    source: RecipeFile, device: torch.device, *, threads: int | None = None, say: Say = console.note
) -> dict[str, float]:
    """Read all data, build the model, do some updates and one validation; returns its scores.

    The largest batches come first, so that a lack of memory shows. `say` gets the time of an update and the
    time and memory of the whole run. `threads` is what the user has set; None measures the best number.

    Raises:
        UserError: any error that `train` would raise before or in its first updates.
    """
    with (
        tempfile.TemporaryDirectory(prefix="regard-dry-run-") as name,
        RunFolder(Path(name) / "run").lock() as run,
    ):
        teacher = load_teacher(source, run, device, writes=False, say=say)
        for warning in same_files(source.table):
            console.warn(warning)
        task, model = begin(source, run, device, say=say, limit=EXAMPLES, teacher=teacher)
        objective = training_objective(task, source.recipe.training, teacher)
        with matmul_precision(choose_precision(source.recipe.training.products, task.config.d_model, device)):
            count = threads or measured_threads(model, objective, task.loader(), source.recipe.training)
            with with_threads(count):
                updates = _timed_updates(source, task, model, objective, run)
        start = time.perf_counter()
        metrics = _validate(task, model) if task.has_validation else {}
        if warning := rate_warning(source.recipe.training, d_model=task.config.d_model):
            console.warn(warning)
        for line in _estimates(source, task, updates, time.perf_counter() - start, model.device):
            say(line)
    say("dry run: no errors; nothing was kept")
    return metrics


class _LargestFirst(Loader):
    """A loader whose first two updates have the largest batches."""

    def __init__(self, loader: Loader, *, seed: int, accumulate: int) -> None:
        super().__init__(loader.examples, loader.settings, seed=seed, order=loader.order)
        self._accumulate = accumulate

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._largest():
            yield from itertools.repeat(batch, self._accumulate)
        yield from super().__iter__()

    def _largest(self) -> list[Batch]:
        """The batch with the most elements, and the batch with the longest rows."""
        batches = list(itertools.islice(self.epoch(0), SEARCHED_BATCHES))
        return [max(batches, key=lambda batch: _extent(batch)[i]) for i in range(2)]


def _extent(batch: Any) -> tuple[int, int]:
    """The number of elements of a batch, and the length of its longest row."""
    tensors = [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]
    return sum(each.numel() for each in tensors), max((each.shape[-1] for each in tensors), default=0)


def _timed_updates(
    source: RecipeFile, task: Task, model: Model, objective: Objective, run: RunFolder
) -> list[Update]:
    """Train for some seconds; returns the timed updates."""
    recipe, done = source.recipe, []
    training = dataclasses.replace(
        recipe.training, max_steps=10**9, validate_every=10**9, save_every=10**9, average_last=0
    )

    def stop() -> int | None:
        timed = sum(update.seconds for update in done[WARM_UP:])
        enough = len(done) >= WARM_UP + UPDATES or timed >= SECONDS
        return signal.SIGTERM if len(done) > WARM_UP and enough else None

    trainer = Trainer(
        model,
        objective,
        _LargestFirst(task.loader(), seed=training.seed, accumulate=training.accumulate),
        training,
        run,
        model_files(task.config, task.labels, task.files, source.text),
        validate=lambda model: {},
        report=_refuse_nonfinite_loss,
        update=done.append,
        stop=stop,
    )
    try:
        trainer.train()
    except Stopped:
        return done[WARM_UP:]
    raise AssertionError("training runs until it is stopped")


def _refuse_nonfinite_loss(record: dict[str, Any]) -> None:
    if record["kind"] == "skipped":
        raise RunError(f"the loss of update {record['step']} is not finite", "try a lower learning_rate")


def _validate(task: Task, model: Model) -> dict[str, float]:
    model.eval()
    with torch.no_grad(), merged(model):
        return scores_of(task.validate(model))


def _estimates(
    source: RecipeFile, task: Task, updates: list[Update], validation: float, device: torch.device
) -> Iterator[str]:
    """The estimated time and memory of the run, a line each."""
    training = source.recipe.training
    seconds = sum(update.seconds for update in updates) / len(updates)
    targets = sum(update.targets for update in updates) / len(updates)
    yield f"an update: {seconds:.2g} s for {targets:,.0f} targets, the mean of {len(updates)}"
    total = seconds * training.max_steps
    count = validations_after(0, training) if task.has_validation else 0
    line = f"the run: {console.duration(total)} for {training.max_steps:,} updates"
    if not count:
        line += ", without validation"
    elif math.isnan(task.dry_run_share):
        line += f", and {counted(count, 'validation')}, which were not timed"
    else:
        validations = count * validation / task.dry_run_share
        line += f", {console.duration(validations)} at most for {counted(count, 'validation')}:"
        line += f" {console.duration(total + validations)} in all"
    yield f"{line} (on this machine, as busy as it is now)"
    if training.refit:
        yield f"training.refit: then {console.duration(total)} for the same updates on all texts"
    if memory := _peak_memory(device):
        yield f"memory: {memory / 2**30:.1f} GiB at most, with the largest batches"


def _peak_memory(device: torch.device) -> int:
    """The peak memory so far in bytes, of the GPU if `device` is one, else of this process; 0 if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0
    import resource  # only Unix has it

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
