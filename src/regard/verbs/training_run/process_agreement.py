"""Checks that the processes of one run agree; all raise the same error, the first reports it."""

import json
import socket

from regard.distributed.group import Group
from regard.errors import FolderError, RecipeError
from regard.recipe import differences
from regard.verbs.shared.settings import RESOLVED
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.weights.checkpoint import Checkpoint, RunFolder


def refuse_too_many(recipe: Recipe, processes: int) -> None:
    """Raise a RecipeError if a batch is too small for the processes, or FSDP2 meets a model with adapters."""
    for name in ("batch_tokens", "batch_examples"):
        size = getattr(recipe.batches, name)
        if 0 < size < processes:
            raise RecipeError(
                f"batches.{name} = {size} cannot be shared among {processes} processes",
                f"start at most {size} processes, or raise it",
            )
    if processes > 1 and recipe.distributed.strategy == "fsdp2" and recipe.training.adapter is not None:
        raise RecipeError(
            "training.adapter does not work with distributed.strategy = 'fsdp2'",
            "set it to 'ddp': few weights of a model with adapters need gradients",
        )


def refuse_another_run(run: RunFolder, source: RecipeFile, group: Group) -> None:
    """Raise an error if processes have different recipes, or do not see the same run folder."""
    if group.size == 1:
        return
    table = json.loads(json.dumps(source.table, default=str))  # dates are text in JSON
    values = group.all_gather([table, socket.gethostname(), (run.path / RESOLVED).is_file()])
    first = values[0][0]
    for rank, (other, host, sees_run) in enumerate(values):
        if changed := differences(first, other):
            raise RecipeError(
                f"process {rank} has another recipe than process 0: {'; '.join(changed)}",
                "start all processes with the same command and the same file",
            )
        if not sees_run:
            raise FolderError(
                f"process {rank}, on {host}, does not see the run folder {run.path}",
                "put it on a file system that all machines share, and name it with --out",
            )


def refuse_another_step(checkpoint: Checkpoint | None, run: RunFolder, group: Group) -> None:
    """Raise a FolderError if processes resume from different checkpoints."""
    steps = group.all_gather(checkpoint.step if checkpoint else None)
    for rank, step in enumerate(steps):
        if step != steps[0]:
            raise FolderError(
                f"process {rank} resumes from step {step}, process 0 from step {steps[0]}",
                f"check that all machines share {run.path}",
            )
