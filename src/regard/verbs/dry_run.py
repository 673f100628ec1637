"""Try a recipe without keeping anything: data, shapes, memory, one update."""

import dataclasses
import sys
import tempfile
from pathlib import Path

import torch

from regard import console
from regard.errors import RunError
from regard.models.build import build, count_parameters
from regard.training.trainer import Trainer
from regard.verbs.tasks.kinds import prepare_of
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
    with tempfile.TemporaryDirectory(prefix="regard-dry-run-") as name:
        task = prepare_of(source.recipe)(source, Path(name) / "data", say=console.note, limit=EXAMPLES)
        with RunFolder(Path(name) / "run").lock() as run:
            metrics = _one_update(source, task, run, device)
    console.note("dry run: all well; nothing was kept")
    return metrics


def _one_update(source: RecipeFile, task: Task, run: RunFolder, device: torch.device) -> dict[str, float]:
    recipe = source.recipe
    model = build(task.config, seed=recipe.training.seed).to(device)
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
        f"model: {count_parameters(model):,} parameters; one update of {state.target_tokens:,} targets"
        f" in {state.seconds:.1f} s; {_peak_memory(device) / 2**30:.1f} GiB at the most"
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
