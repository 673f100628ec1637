"""Try a recipe without keeping anything: data, shapes, and what the run will need of time and memory."""

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
from regard.data.batch import Batch
from regard.data.loader import Loader
from regard.errors import RunError, Stopped
from regard.models.adapters import merged
from regard.models.model import Model
from regard.training.losses import chosen_loss
from regard.training.pace import Update, validations_after
from regard.training.products import choose_precision, matmul_precision
from regard.training.trainer import Trainer
from regard.verbs.final_scores import scores_of
from regard.verbs.initial_model import begin
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Say, Task
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import model_files

EXAMPLES = 20_000  # that are tried; everything is read
LOOKED_AT = 500  # batches, among which the largest are sought
SLOW = 3  # updates that are not timed: those of the largest batches, and one that is slow for being the first
UPDATES, SECONDS = 20, 10.0  # that are timed at the most, but one at least


def try_recipe(source: RecipeFile, device: torch.device, *, say: Say = console.note) -> dict[str, float]:
    """Read all data whole, build everything, do some updates and one validation; the scores of the latter.

    The largest batches come first, so that a lack of memory shows. What is said: updates, epochs, and the
    time and the memory that the run will need.

    Raises:
        UserError: whatever `train` would have raised in its first minute.
    """
    with (
        tempfile.TemporaryDirectory(prefix="regard-dry-run-") as name,
        RunFolder(Path(name) / "run").lock() as run,
    ):
        task, model = begin(source, run, device, say=say, limit=EXAMPLES)
        with matmul_precision(choose_precision(source.recipe.training.products, task.config.d_model, device)):
            updates = _some_updates(source, task, model, run)
        began = time.perf_counter()
        metrics = _validate(task, model)
        for line in _needs(source, task, updates, time.perf_counter() - began, model.device):
            say(line)
    say("dry run: all well; nothing was kept")
    return metrics


class _LargestFirst(Loader):
    """A loader whose first batches are the largest ones, as often as an update asks for."""

    def __init__(self, loader: Loader, *, seed: int, accumulate: int) -> None:
        super().__init__(loader.examples, loader.settings, seed=seed)
        self._accumulate = accumulate

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._largest():
            yield from itertools.repeat(batch, self._accumulate)
        yield from super().__iter__()

    def _largest(self) -> list[Batch]:
        """That with most places, and that with the longest rows."""
        batches = list(itertools.islice(self.epoch(0), LOOKED_AT))
        return [max(batches, key=lambda batch: _extent(batch)[i]) for i in range(2)]


def _extent(batch: Any) -> tuple[int, int]:
    """How many numbers a batch holds, and how long its longest row is."""
    tensors = [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]
    return sum(each.numel() for each in tensors), max((each.shape[-1] for each in tensors), default=0)


def _some_updates(source: RecipeFile, task: Task, model: Model, run: RunFolder) -> list[Update]:
    """Train for some seconds; the updates that were timed."""
    recipe, done = source.recipe, []
    training = dataclasses.replace(
        recipe.training, max_steps=10**9, validate_every=10**9, save_every=10**9, average_last=0
    )

    def stop() -> int | None:
        timed = sum(update.seconds for update in done[SLOW:])
        enough = len(done) >= SLOW + UPDATES or timed >= SECONDS
        return signal.SIGTERM if len(done) > SLOW and enough else None

    trainer = Trainer(
        model,
        chosen_loss(recipe.training.loss, task.objective()),
        _LargestFirst(task.loader(), seed=training.seed, accumulate=training.accumulate),
        training,
        run,
        model_files(task.config, task.labels, task.files, source.text),
        validate=lambda model: {},
        report=_refuse_what_is_not_finite,
        update=done.append,
        stop=stop,
    )
    try:
        trainer.train()
    except Stopped:
        return done[SLOW:]
    raise AssertionError("it goes on until it is stopped")


def _refuse_what_is_not_finite(record: dict[str, Any]) -> None:
    if record["kind"] == "skipped":
        raise RunError(
            f"the loss of update {record['step']} is not finite", "look at learning_rate and r_drop"
        )


def _validate(task: Task, model: Model) -> dict[str, float]:
    model.eval()
    with torch.no_grad(), merged(model):
        return scores_of(task.validate(model))


def _needs(
    source: RecipeFile, task: Task, updates: list[Update], validation: float, device: torch.device
) -> Iterator[str]:
    """What the run will need, in lines."""
    training = source.recipe.training
    one = sum(update.seconds for update in updates) / len(updates)
    targets = sum(update.targets for update in updates) / len(updates)
    yield f"an update: {one:.2g} s for {targets:,.0f} targets, the mean of {len(updates)}"
    total = one * training.max_steps
    count = validations_after(0, training)
    several = "" if count == 1 else "s"
    line = f"the run: {console.duration(total)} for {training.max_steps:,} updates"
    if math.isnan(task.trial_share):
        line += f", and {count} validation{several}, which were not timed"
    else:
        whole = count * validation / task.trial_share
        line += f", {console.duration(whole)} at the most for {count} validation{several}:"
        line += f" {console.duration(total + whole)} in all"
    yield f"{line} (this machine, as busy as it is now)"
    if memory := _peak_memory(device):
        yield f"memory: {memory / 2**30:.1f} GiB at the most, with the largest batches"


def _peak_memory(device: torch.device) -> int:
    """The most memory held so far, in bytes: of the GPU where one is used, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0  # it does not say
    import resource  # not above: only Unix has it

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
