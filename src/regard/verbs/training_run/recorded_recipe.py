"""The recipe that a run folder records: written, and read when the run is resumed."""

import shlex
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.verbs.shared.run_recipe import RECIPE, has_data, record, recorded
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.checkpoint import LEARNED_VALIDATION, RESOLVED, RunFolder

GENERATION = "generation.json"  # in a model folder: the defaults of decoding


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


def renew_decoding(run: RunFolder, source: RecipeFile, files: Mapping[str, bytes]) -> None:
    """Give RUN/best the decoding defaults of a recipe whose `[decoding]` has changed since it was written.

    `files`: those of the task's model folder.
    """
    best = run.best()
    if best is None or GENERATION not in files:
        return
    if tomllib.loads(best.read_bytes(RECIPE).decode()).get("decoding") == source.table.get("decoding"):
        return
    kept = {name: best.read_bytes(name) for name in best.names}
    run.write_best(
        {**kept, RECIPE: source.text.encode(), GENERATION: files[GENERATION]},
        step=best.manifest["step"],
        is_average=best.manifest["is_average"],
        learned_validation=best.manifest.get(LEARNED_VALIDATION, False),
    )


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
