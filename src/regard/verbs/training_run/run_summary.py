"""Lines about a training run: its length before it starts, why it stopped early, averaged checkpoints."""

from collections.abc import Mapping
from typing import Any

from regard import console
from regard.counted import counted
from regard.data.loader import Loader
from regard.training.pace import time_left, validations_after
from regard.training.settings import TrainingSettings
from regard.training.state import TimedCount


def training_summary(
    settings: TrainingSettings,
    loader: Loader,
    state: Mapping[str, Any] | None,
    *,
    has_validation: bool = True,
) -> str:
    """The summary of a new run, or of a run resumed from a checkpoint's `state`, with its remaining time."""
    done = 0 if state is None else state["step"]
    if done >= settings.max_steps:
        return f"training: finished at update {done:,}; a larger --set training.max_steps=... makes it longer"
    if state is not None and (reason := early_stop(settings, state)):
        return f"training: {reason}"
    per_epoch = loader.batches_in_epoch(0) / settings.accumulate
    validations = validations_after(done, settings) if has_validation else 0
    updates = (
        f"{settings.max_steps:,} updates" if not done else f"updates {done + 1:,} to {settings.max_steps:,}"
    )
    ends = settings.max_steps / per_epoch
    epochs = epochs_of(ends) if not done else f"epochs {done / per_epoch:.1f} to {ends:.1f}"
    about = "about " if loader.is_estimated else ""
    validated = counted(validations, "validation") if has_validation else "no validation"
    line = f"training: {updates} ({epochs} of {about}{per_epoch:,.0f} updates), {validated}"
    if state is None or "validations" not in state:
        return f"{line}; the time will be known after the first update"
    timed = TimedCount(**state["validations"])
    updated = TimedCount(count=done, seconds=state["seconds"] - timed.seconds)
    left = time_left(done, settings, updated, timed)
    return f"{line}; about {console.duration(left.seconds)} at the speed so far"


def epochs_of(count: float) -> str:
    """A number of epochs in words: 1 epoch, 1.5 epochs."""
    shown = f"{count:.1f}"
    return "1 epoch" if shown == "1.0" else f"{shown} epochs"


def early_stop(settings: TrainingSettings, state: Mapping[str, Any]) -> str:
    """Where and why a run has stopped before `max_steps`; empty if it has not."""
    stale = state.get("validations_since_best", 0)
    if not 0 < settings.patience <= stale or state["step"] >= settings.max_steps:
        return ""
    return (
        f"stopped early at update {state['step']:,} of {settings.max_steps:,}: {counted(stale, 'validation')}"
        f" without a better {' or '.join(settings.choosing)} (training.patience = {settings.patience});"
        f" the best model is that of update {state['best_step']:,}"
    )


def few_averaged(record: Mapping[str, Any], settings: TrainingSettings) -> str:
    """A warning if a record is of the mean of fewer checkpoints than `average_last`; else empty."""
    count = len(record.get("of", ()))
    if record["kind"] != "average" or count >= settings.average_last:
        return ""
    return (
        f"training.average_last = {settings.average_last}, but the run has"
        f" {counted(count, 'checkpoint')} to average: training.save_every is {settings.save_every:,}"
    )
