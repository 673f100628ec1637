"""What a run folder records of its recipe in `resolved.json`: the settings, and where their paths are."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.errors import FolderError
from regard.recipe import apply_overrides, read_toml
from regard.training.schedule import FORMER_FACTOR
from regard.weights.checkpoint import RESOLVED, RunFolder
from regard.weights.folder import MANIFEST
from regard.weights.strict_json import read_json

RECIPE = "recipe.toml"
RATE = "training.schedule.learning_rate"


def record(run: RunFolder, table: Mapping[str, Any], text: str, base: Path) -> str:
    """The content of `resolved.json` for a run whose recipe has this table, text and folder."""
    found = {
        "recipe": table,
        "base": str(base),
        "base_from_run": os.path.relpath(base.resolve(), run.path),
        "text_sha256": _digest(text.encode()),
    }
    return json.dumps(found, indent=1)


def recorded(run: Path) -> dict[str, Any]:
    """The content of `resolved.json`, with the factor of `kind = "noam"` that an old run does not record.

    Raises:
        FolderError: it is not a record of a run.
    """
    saved = _read(run)
    if not _lacks_factor(run, saved):
        return saved
    return {**saved, "recipe": apply_overrides(saved["recipe"], [f"{RATE}={FORMER_FACTOR}"])}


def records_no_factor(run: Path) -> bool:
    """True for a run with `kind = "noam"` and updates from before its factor was recorded."""
    return _lacks_factor(run, _read(run))


def _read(run: Path) -> dict[str, Any]:
    saved = read_json(run / RESOLVED)
    if not {"recipe", "base"} <= saved.keys():
        raise FolderError(f"{run / RESOLVED} is not a record of a run", "restore it, or take another --out")
    return saved


def _lacks_factor(run: Path, saved: Mapping[str, Any]) -> bool:
    schedule = saved["recipe"]
    for name in ("training", "schedule"):
        schedule = schedule.get(name) if isinstance(schedule, Mapping) else None
    if not isinstance(schedule, Mapping) or schedule.get("kind") != "noam" or "learning_rate" in schedule:
        return False
    return any((run / "checkpoints").glob("step-*"))


def edited_recipe(run: Path) -> tuple[dict[str, Any], str] | None:
    """The table and the text of `recipe.toml` if it was edited since the run wrote it, else None.

    None too for a run of a version that did not record the text.

    Raises:
        RecipeError: the edited file is not TOML.
    """
    wanted, file = recorded(run).get("text_sha256"), run / RECIPE
    if wanted is None or not file.is_file() or _digest(file.read_bytes()) == wanted:
        return None
    return read_toml(file)


def base_of_run(run: Path) -> Path:
    """The folder that the paths of a run's recipe are relative to.

    Where the files of its data are no longer there, it is the folder that lies to the run as the old one
    did, if they are in it: project and run were moved together.
    """
    saved = recorded(run)
    base, table = Path(saved["base"]), saved["recipe"]
    if "base_from_run" not in saved or has_data(table, base):
        return base
    moved = (run.resolve() / saved["base_from_run"]).resolve()
    return moved if has_data(table, moved) else base


def base_of_model(model: Path) -> Path | None:
    """The folder that the paths of the recipe in a model or run folder are relative to.

    That of its run, or the current folder for a model outside its run; None if `model` is neither.
    """
    if (run := run_of(model)) is not None:
        return base_of_run(run)
    return Path.cwd() if (model / MANIFEST).is_file() else None


def run_of(model: Path) -> Path | None:
    """The run folder that a folder is, or whose best model or checkpoint it is; None if there is none."""
    model = model.absolute()
    outer = model.parent.parent if model.parent.name == "checkpoints" else model.parent
    for run in (model, outer):
        if (run / RESOLVED).is_file():
            return run
    return None


def has_data(table: Mapping[str, Any], base: Path) -> bool:
    """True if a file or folder that `[data]` names is there, relative to `base`."""
    return any((base / text).exists() for text in texts_in(table.get("data", {})) if text)


def texts_in(value: Any) -> Iterator[str]:
    """All strings in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
