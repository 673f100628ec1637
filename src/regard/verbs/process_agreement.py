"""What several processes of one run must agree on; each fault is found by all, and told once."""

import json
import socket

from regard.distributed.group import Group
from regard.errors import FolderError, RecipeError
from regard.recipe import differences
from regard.verbs.settings import RESOLVED
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.weights.checkpoint import Checkpoint, RunFolder


def refuse_too_many(recipe: Recipe, processes: int) -> None:
    """A batch has something for each process, and a model with adapters is not cut into parts."""
    for name in ("batch_tokens", "batch_examples"):
        most = getattr(recipe.batches, name)
        if 0 < most < processes:
            raise RecipeError(
                f"batches.{name} = {most} cannot be shared among {processes} processes",
                f"start {most} at the most, or raise it",
            )
    if processes > 1 and recipe.distributed.strategy == "fsdp2" and recipe.training.adapter is not None:
        raise RecipeError(
            "training.adapter does not go with distributed.strategy = 'fsdp2'",
            "set it to 'ddp': of a model with adapters there is little to share",
        )


def refuse_another_run(run: RunFolder, source: RecipeFile, group: Group) -> None:
    """All have the same recipe, and see the same run folder."""
    if group.size == 1:
        return
    table = json.loads(json.dumps(source.table, default=str))  # dates are text in JSON
    found = group.all_gather([table, socket.gethostname(), (run.path / RESOLVED).is_file()])
    first = found[0][0]
    for rank, (other, host, sees) in enumerate(found):
        if changed := differences(first, other):
            raise RecipeError(
                f"process {rank} has another recipe than the first: {'; '.join(changed)}",
                "start all with the same command and the same file",
            )
        if not sees:
            raise FolderError(
                f"process {rank}, on {host}, does not see the run folder {run.path}",
                "put it where all machines see it under this name, and name it with --out",
            )


def refuse_another_step(checkpoint: Checkpoint | None, run: RunFolder, group: Group) -> None:
    """All go on from the same checkpoint."""
    steps = group.all_gather(checkpoint.step if checkpoint else None)
    for rank, step in enumerate(steps):
        if step != steps[0]:
            raise FolderError(
                f"process {rank} goes on from step {step}, the first from step {steps[0]}",
                f"see that all machines see the same {run.path}",
            )
