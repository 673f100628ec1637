"""The recipe that a run folder records: written, and compared with that by which the run is resumed."""

import copy
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import DataError, FolderError
from regard.recipe import differences
from regard.verbs.shared.run_recipe import RECIPE, has_data, record, recorded
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.checkpoint import RESOLVED, RunFolder

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


def write_recipe(run: RunFolder, source: RecipeFile) -> None:
    """Record the recipe: if this is interrupted in between, the new text counts as edited."""
    run.write_text(RECIPE, source.text)
    run.write_text(RESOLVED, record(run, source.table, source.text, source.base))


def recorded_settings(run: RunFolder, source: RecipeFile) -> dict[str, Any]:
    """The table that a run has recorded; a `model.init` that is the model of `source` is written as there."""
    saved = recorded(run.path)
    table = saved["recipe"]
    old, new = (each.get("model", {}).get("init") for each in (table, source.table))
    if isinstance(old, str) and isinstance(new, str) and Path(saved["base"]) / old == source.base / new:
        return {**table, "model": {**table["model"], "init": new}}
    return table


@contextmanager
def moved_files(run: RunFolder, source: RecipeFile) -> Iterator[None]:
    """Say how a run resumes whose data are no longer where its recipe was."""
    try:
        yield
    except DataError as error:
        if has_data(source.table, source.base) or run.latest() is None:
            raise
        raise DataError(
            error.message,
            f"if the files were moved, name their recipe: `regard train RECIPE.toml --out"
            f" {shlex.quote(str(run.path))}`, with the same --set as before",
        ) from None
