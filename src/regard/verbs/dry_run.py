"""Try a recipe without keeping anything: data, shapes, memory, one update."""

import dataclasses
import sys
import tempfile
from pathlib import Path

import torch

from regard import console
from regard.errors import RunError
from regard.models.model import Model
from regard.training.trainer import Trainer
from regard.verbs.start import begin
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Task
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import model_files

EXAMPLES = 20_000  # that are tried; everything is read


def try_recipe(source: RecipeFile, device: torch.device) -> dict[str, float]:
    """Read all data whole, build everything, do one update and one validation; the scores of the latter.

    Raises:
        UserError: whatever `train` would have raised in its first minute.
    """
    with (
        tempfile.TemporaryDirectory(prefix="regard-dry-run-") as name,
        RunFolder(Path(name) / "run").lock() as run,
    ):
        task, model = begin(source, run, device, say=console.note, limit=EXAMPLES)
        metrics = _one_update(source, task, model, run)
    console.note("dry run: all well; nothing was kept")
    return metrics


def _one_update(source: RecipeFile, task: Task, model: Model, run: RunFolder) -> dict[str, float]:
    recipe = source.recipe
    metrics: dict[str, float] = {}
    trainer = Trainer(
        model,
        task.objective(),
        task.loader(),
        dataclasses.replace(recipe.training, max_steps=1, average_last=0),
        run,
        model_files(task.config, task.labels, task.files, source.text),
        validate=task.validate,
        report=lambda record: metrics.update(record) if record["kind"] == "validation" else None,
    )
    state = trainer.train()
    if state.skipped:
        raise RunError("the loss of the first update is not finite", "look at learning_rate and r_drop")
    console.note(
        f"one update of {state.target_tokens:,} targets in {state.seconds:.1f} s;"
        f" {_peak_memory(model.device) / 2**30:.1f} GiB at the most"
    )
    return {key: value for key, value in metrics.items() if key not in ("kind", "step")}


def _peak_memory(device: torch.device) -> int:
    """The most memory held so far, in bytes: of the GPU where one is used, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0  # it does not say
    import resource  # not above: only Unix has it

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
