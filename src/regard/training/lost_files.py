"""What a run has lost when it resumes: its best model, or the record of its best validation."""

from regard import console
from regard.errors import FolderError
from regard.training.best import reset_best
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.weights.checkpoint import RunFolder


def best_is_lost(run: RunFolder, state: TrainingState) -> bool:
    """True, after a warning, if RUN/best is missing or damaged though the run had a best model.

    Raises:
        FolderError: this user may not read it.
    """
    if not state.best_step:
        return False
    try:
        if run.best() is not None:
            return False
        problem = f"{run.path / 'best'} is missing"
    except FolderError as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        problem = error.message
    console.warn(f"{problem}: the best model is chosen again from step {state.step:,} on")
    return True


def choose_best_again(state: TrainingState) -> None:
    """Forget the best validation, so that the next one, at once if it is due at this step, is the best."""
    reset_best(state)
    state.validated_step = 0


def lost_record(run: RunFolder, settings: TrainingSettings, state: TrainingState) -> dict[str, object] | None:
    """The record of the best validation, after a warning, if `metrics.jsonl` has lost it.

    It has the scores that the state of the run has: those by which the model was selected.
    """
    step = state.best_step
    if not step or state.best_value is None:
        return None
    if any(record["kind"] == "validation" and record.get("step") == step for record in run.metrics()):
        return None
    console.warn(
        f"{run.path / 'metrics.jsonl'} has lost its record of step {step:,}, the best validation, which is"
        " written again; others may be lost too"
    )
    scores = {} if state.best_loss is None else {"loss": state.best_loss}
    return {"kind": "validation", "step": step, **scores, settings.choosing[0]: state.best_value}
