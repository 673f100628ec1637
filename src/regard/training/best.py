"""Selection of the best model by one or two validation metrics."""

import math
from collections.abc import Mapping

from regard.training.settings import METRICS, TrainingSettings
from regard.training.state import TrainingState


def better(metrics: Mapping[str, float], settings: TrainingSettings, state: TrainingState) -> list[bool]:
    """For each selection metric, True if it is better than ever; with two metrics, if it is not worse.

    Two metrics follow the code of Velickovic et al. 2018: on small validation sets accuracies often tie.
    Of models that have nothing right, as at first, the one with the least loss is best.
    """
    best = [state.best_value, state.second_value]
    either = settings.second_metric is not None
    nothing_right = state.best_value == (0 if METRICS[settings.best_metric] else 100) and not either
    learns = nothing_right and _is_better(_loss(metrics), _loss_of_best(state), more=False, or_equal=False)
    return [
        _is_better(metrics[metric], value, more=METRICS[metric], or_equal=either or learns)
        for metric, value in zip(settings.choosing, best, strict=False)
    ]


def record_best(metrics: Mapping[str, float], settings: TrainingSettings, state: TrainingState) -> bool:
    """Records a validation in `state`; returns True if the model is the best so far."""
    found = better(metrics, settings, state)
    if all(found):
        state.best_step = state.step
        loss = _loss(metrics)
        state.best_loss = None if math.isnan(loss) else loss
    if found[0]:
        state.best_value = metrics[settings.best_metric]
    if settings.second_metric and found[1]:
        state.second_value = metrics[settings.second_metric]
    state.validations_since_best = 0 if any(found) else state.validations_since_best + 1
    return all(found)


def reset_best(state: TrainingState) -> None:
    """Resets the best values, so that the next validation is the best."""
    state.best_value = state.second_value = state.best_loss = None
    state.best_step = state.validations_since_best = 0


def _loss(metrics: Mapping[str, float]) -> float:
    return metrics.get("loss", math.nan)


def _loss_of_best(state: TrainingState) -> float:
    """The loss of the best model; if it is unknown, as in older runs, no other model's is lower."""
    return -math.inf if state.best_loss is None else state.best_loss


def _is_better(value: float, best: float | None, *, more: bool, or_equal: bool) -> bool:
    """True if `value` is better than `best`; NaN never is."""
    if best is None or math.isnan(value):
        return not math.isnan(value)
    return (value > best if more else value < best) or (or_equal and value == best)
