"""A run that has not come to its end: whoever uses its model is told so."""

import re
from pathlib import Path

from regard.errors import RegardError
from regard.training.settings import TrainingSettings
from regard.weights.checkpoint import RESOLVED
from regard.weights.strict_json import read_json


def unfinished(model: Path) -> str:
    """In words, where a run stands whose folder or best model is at `model`; empty if it is at its end.

    Empty, too, for any other folder: only what is there without doubt is told.
    """
    run = model.parent if model.name == "best" else model
    if not (run / RESOLVED).is_file():
        return ""
    try:
        training = read_json(run / RESOLVED)["recipe"].get("training", {})
        last = int(training.get("max_steps", TrainingSettings.max_steps))
        patience = int(training.get("patience", TrainingSettings.patience))
        state = read_json(_newest(run) / "state.json")
        step, stale = int(state["step"]), int(state["validations_since_best"])
        best = int(state["best_step"])
    except (RegardError, OSError, AttributeError, KeyError, TypeError, ValueError):
        return ""
    if step >= last or 0 < patience <= stale:
        return ""
    which = f"; its best model so far is of step {best:,}" if best else ""
    return f"{run}: the run is at step {step:,} of {last:,}{which}"


def _newest(run: Path) -> Path:
    """The checkpoint of the last step. It is not verified: that would read all of it."""
    steps = {
        int(match[1]): path
        for path in (run / "checkpoints").iterdir()
        if (match := re.fullmatch(r"step-(\d{8,18})", path.name))
    }
    return steps[max(steps)]
