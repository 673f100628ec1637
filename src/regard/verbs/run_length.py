"""The length of a run: one that is there is made longer or shorter by another `training.max_steps`."""

import copy
from collections.abc import Mapping
from typing import Any

from regard.errors import FolderError
from regard.recipe import differences
from regard.verbs.settings import load_run
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.checkpoint import RunFolder

SHARING = "distributed"  # the section of a recipe


def refuse_another_recipe(run: RunFolder, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Whatever differs but the length. How processes share the model may be otherwise each time.

    Raises:
        FolderError: a setting is another one, which is named.
    """
    if changed := differences(_without_length(old), _without_length(new)):
        raise FolderError(
            f"{run.path} holds a run of another recipe: {'; '.join(changed)}",
            "take another --out, or set these back to go on with the run that is there",
        )


def _without_length(table: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(dict(table))
    found.pop(SHARING, None)
    if isinstance(found.get("training"), dict):
        found["training"].pop("max_steps", None)
    return found


def change_length(run: RunFolder, source: RecipeFile) -> str | None:
    """See that the run may have the length of `source`, and record it where it had another; what to say then.

    The weights go on from the last checkpoint, the schedule is that of the new length from there on.

    Raises:
        FolderError: the run is beyond that length.
    """
    before, after = load_run(run.path).recipe.training.max_steps, source.recipe.training.max_steps
    if before == after:
        return None
    checkpoint = run.latest()
    step = checkpoint.step if checkpoint else 0
    if step > after:
        raise FolderError(
            f"{run.path} is at step {step:,} of {before:,}, beyond training.max_steps = {after}",
            f"go on with `regard train {run.path}`, give {step} or more, or take another --out",
        )
    record = {"kind": "length", "step": step, "before": before, "max_steps": after}
    if record not in run.metrics():
        run.append_metrics(record)
    if not step:
        return f"the run has {after:,} updates now, not {before:,}"
    return (
        f"the run has {after:,} updates now, not {before:,}: from step {step + 1:,} on the learning rate is"
        " that of the new length, so the weights will not be those of a run that had it from the start"
    )
