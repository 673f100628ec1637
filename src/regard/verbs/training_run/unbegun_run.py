"""Run folders in which no training has begun, such as that of a recipe whose first start failed."""

import copy
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.os_errors import os_errors
from regard.recipe import differences
from regard.verbs.training_run.initial_model import START
from regard.verbs.training_run.product_choice import PRODUCTS
from regard.verbs.training_run.teacher import TEACHER
from regard.verbs.training_run.thread_choice import THREADS
from regard.weights.checkpoint import RunFolder

DATA = "data"  # folder of a run: tokenisers and tokenised texts
PREPARED = (START, TEACHER, THREADS, PRODUCTS)  # files that are written before the first checkpoint
WITHOUT_DATA = ("model", "training", "validation", "decoding", "distributed", "name", "description", "card")


def begin_again(run: RunFolder, old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """If no training has begun in `run`, remove what was prepared for the recipe `old` and not for `new`.

    Returns a note, or None if nothing was removed: the recipes are the same, or training has begun.
    """
    changed = differences(old, new)
    if not changed or _has_trained(run):
        return None
    if differences(_of_data(old), _of_data(new)):
        _remove_folder(run.path / DATA)
    for name in PREPARED:
        (run.path / name).unlink(missing_ok=True)
    return f"no training has begun in {run.path}: it takes the new recipe ({'; '.join(changed)})"


def _remove_folder(path: Path) -> None:
    if path.exists():
        with os_errors("remove", path):
            shutil.rmtree(path)


def _has_trained(run: RunFolder) -> bool:
    """True if there is a checkpoint, be it damaged, or what is made after the first."""
    begun = any(record["kind"] != "length" for record in run.metrics())
    return begun or bool(os.listdir(run.path / "checkpoints")) or (run.path / "best").exists()


def _of_data(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings on which tokenisers and tokenised texts depend, or may depend."""
    model, training = table.get("model", {}), table.get("training", {})
    given = {"init": model.get("init"), "distillation": training.get("distillation")}
    return copy.deepcopy({name: each for name, each in table.items() if name not in WITHOUT_DATA} | given)
