"""Run folders in which no training has begun, such as that of a recipe whose first start failed."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from regard.data.os_errors import os_errors
from regard.recipe import differences
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import rename_away

DATA = "data"  # folder of a run: tokenisers and tokenised texts
WITHOUT_DATA = ("model", "training", "validation", "decoding", "distributed", "name", "description", "card")


def begin_again(
    run: RunFolder, old: Mapping[str, Any], new: Mapping[str, Any], prepared: Iterable[str]
) -> str | None:
    """If no training has begun in `run`, set aside what was prepared for the recipe `old` and not for `new`.

    `prepared` are the files that are written before the first checkpoint. Returns a note, or None if the
    recipes are the same, or training has begun.
    """
    changed = differences(old, new)
    if not changed or has_trained(run):
        return None
    note = f"no training has begun in {run.path}: it takes the new recipe ({'; '.join(changed)})"
    if differences(_of_data(old), _of_data(new)):
        note += set_data_aside(run)
    with os_errors("use", run.path):
        for name in prepared:
            (run.path / name).unlink(missing_ok=True)
    return note


def has_trained(run: RunFolder) -> bool:
    """True if there is a checkpoint, be it damaged, or what is made after the first."""
    begun = any(record["kind"] != "length" for record in run.metrics())
    with os_errors("read", run.path):
        return begun or bool(os.listdir(run.path / "checkpoints")) or (run.path / "best").exists()


def set_data_aside(run: RunFolder) -> str:
    """Rename the prepared data, in case something else is with them; returns the end of a note about it."""
    if not os.path.lexists(run.path / DATA):
        return ""
    return f"; what was prepared before is in {rename_away(run.path / DATA, 'old')}, which can be removed"


def _of_data(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings on which tokenisers and tokenised texts depend, or may depend."""
    model, training = table.get("model", {}), table.get("training", {})
    given = {"init": model.get("init"), "distillation": training.get("distillation")}
    return {name: each for name, each in table.items() if name not in WITHOUT_DATA} | given
