"""The message for a run that a signal has stopped."""

import shlex

from regard.errors import Stopped
from regard.training.state import TrainingState
from regard.weights.checkpoint import RunFolder


def stopped(signal: int, state: TrainingState, run: RunFolder, *, validates: bool) -> Stopped:
    """The error of a stopped run: how to resume it, and whether the last updates were validated."""
    command = f"regard train {shlex.quote(str(run.path))}"
    hint = f"continue with `{command}`"
    if not validates or state.step == state.validated_step:
        return Stopped(signal, f"stopped at step {state.step}, which is saved", hint)
    best = "there is no best model"
    if state.best_step:
        best = f"the best model is that of step {state.best_step}"
    return Stopped(
        signal,
        f"stopped at step {state.step}, which is saved but not validated: {best} so far",
        f"{hint}; `{command} --set training.max_steps={state.step}` validates it and ends the run there",
    )
