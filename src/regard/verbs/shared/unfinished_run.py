"""A note for the user of a model whose training run is not finished."""

import re
from pathlib import Path

from regard.errors import RegardError
from regard.weights.checkpoint import LEARNED_VALIDATION, REFIT, RESOLVED
from regard.weights.folder import MANIFEST, find_folder
from regard.weights.strict_json import read_json


def unfinished(model: Path) -> str:
    """How far the training run of `model` (a run folder or its best model) is; empty if it is finished.

    Empty as well if the folder is not a run folder, or its state cannot be read.
    """
    run = model.parent if model.name == "best" else model
    if not (run / RESOLVED).is_file():
        return ""
    from regard.training.settings import TrainingSettings  # which a finished model need not wait for

    try:
        training = read_json(run / RESOLVED)["recipe"].get("training", {})
        last = int(training.get("max_steps", TrainingSettings.max_steps))
        patience = int(training.get("patience", TrainingSettings.patience))
        state = read_json(_newest(run) / "state.json")
        step, stale = int(state["step"]), int(state["validations_since_best"])
        best = int(state["best_step"])
        lacks_refit = bool(training.get("refit")) and not _is_refit(run)
    except (RegardError, OSError, AttributeError, KeyError, TypeError, ValueError):
        return ""
    if step >= last or 0 < patience <= stale:
        return f"{run}: the second run (training.refit) is not finished" if lacks_refit else ""
    best_model = f"; its best model so far is that of step {best:,}" if best else ""
    return f"{run}: the run is at step {step:,} of {last:,}{best_model}"


def _is_refit(run: Path) -> bool:
    """True if the second run (`training.refit`) has all updates of the first, and gave the run its model."""
    best = find_folder(run / "best")
    if not (run / REFIT / "checkpoints").is_dir():
        return False
    steps = [int(read_json(_newest(each) / "state.json")["step"]) for each in (run, run / REFIT)]
    return best is not None and steps[0] <= steps[1] and LEARNED_VALIDATION in read_json(best / MANIFEST)


def _newest(run: Path) -> Path:
    """The folder of the newest checkpoint; it is not verified, since that would read all of its files."""
    steps = {
        int(match[1]): path
        for path in (run / "checkpoints").iterdir()
        if (match := re.fullmatch(r"step-(\d{8,18})", path.name))
    }
    return steps[max(steps)]
