"""Resuming a run that becomes longer or shorter (`training.max_steps`), or keeps other checkpoints."""

import copy
import shlex
from collections.abc import Mapping
from typing import Any

from regard.errors import FolderError
from regard.recipe import differences
from regard.verbs.shared.settings import load_run
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.checkpoint import RunFolder

DISTRIBUTED = "distributed"  # the section of a recipe that may differ when a run resumes


def refuse_another_recipe(run: RunFolder, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Compare the recipe of a run with a new one.

    `[distributed]` and `max_steps` and `keep` of `[training]` may differ.

    Raises:
        FolderError: other settings differ; the message names them.
    """
    if changed := differences(_without_length(old), _without_length(new)):
        raise FolderError(
            f"{run.path} holds a run of another recipe: {'; '.join(changed)}",
            "undo these changes to resume the run, or choose another --out;"
            f" --init {shlex.quote(str(run.path))} starts from its model",
        )


def _without_length(table: Mapping[str, Any]) -> dict[str, Any]:
    rest: dict[str, Any] = copy.deepcopy(dict(table))
    rest.pop(DISTRIBUTED, None)
    if isinstance(rest.get("training"), dict):
        rest["training"].pop("max_steps", None)
        rest["training"].pop("keep", None)  # changes what stays on disk alone
    return rest


def change_length(run: RunFolder, source: RecipeFile) -> str | None:
    """Give the run the length of `source` and record it; returns a note, or None if the length is the same.

    Training resumes from the last checkpoint with the learning rates of the new length.

    Raises:
        FolderError: the run has more updates already.
    """
    before, after = load_run(run.path).recipe.training.max_steps, source.recipe.training.max_steps
    if before == after:
        return None
    checkpoint = run.latest()
    step = checkpoint.step if checkpoint else 0
    if step > after:
        raise FolderError(
            f"{run.path} is at step {step:,} of {before:,}, beyond training.max_steps = {after}",
            f"resume it with `regard train {run.path}`, give {step} or more, or choose another --out",
        )
    record = {"kind": "length", "step": step, "before": before, "max_steps": after}
    if record not in run.metrics():
        run.append_metrics(record)
    if not step:
        return f"the run has {after:,} updates now, not {before:,}"
    return (
        f"the run has {after:,} updates now, not {before:,}: from step {step + 1:,} on the learning rate is"
        " that of the new length, so the weights will differ from those of a run that had it from the start"
    )
