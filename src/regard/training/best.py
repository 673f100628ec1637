"""Selection of the best model by one or two validation metrics."""

import math
from collections.abc import Mapping, Sequence

from regard.training.settings import METRICS, TrainingSettings, is_higher_better, measured_name
from regard.training.state import TrainingState

NOISY_BLEU = 5.0  # below this BLEU, models are compared by chrF++, which is above 0 much earlier


def deciding_metrics(metric: str, values: Sequence[float]) -> tuple[str, ...]:
    """The metrics that compare models with these values of `metric`, in the order in which they decide.

    Below NOISY_BLEU the BLEU of a model is chance: chrF++ decides, and the loss where there is none. Of
    models that have nothing right, as at first, the one with the least loss is best.
    """
    if metric == "bleu" and max(values) < NOISY_BLEU:
        return "chrf++", "loss", "bleu"
    if metric not in METRICS:
        return (metric,)
    nothing_right = 0.0 if is_higher_better(metric) else 100.0
    return (metric, "loss") if all(value == nothing_right for value in values) else (metric,)


def better(metrics: Mapping[str, float], settings: TrainingSettings, state: TrainingState) -> list[bool]:
    """For each selection metric, True if it is better than ever; with two metrics, if it is not worse.

    Two metrics follow the code of Velickovic et al. 2018: on small validation sets accuracies often tie.
    """
    if settings.second_metric is None:
        return [_is_better_model(metrics, settings.best_metric, state)]
    return [
        _is_not_worse(metrics[measured_name(metric)], value, more=is_higher_better(metric))
        for metric, value in (
            (settings.best_metric, state.best_value),
            (settings.second_metric, state.second_value),
        )
    ]


def _is_better_model(metrics: Mapping[str, float], metric: str, state: TrainingState) -> bool:
    """True if the model is better than the best one so far; what is not known of both does not decide."""
    value, best = metrics[measured_name(metric)], state.best_value
    if best is None or math.isnan(value):
        return not math.isnan(value)
    of_best = {"chrf++": state.best_chrf, "loss": state.best_loss, metric: best}
    for name in deciding_metrics(metric, (value, best)):
        new, old = metrics.get(measured_name(name), math.nan), of_best[name]
        if old is not None and not math.isnan(new) and new != old:
            return _is_not_worse(new, old, more=is_higher_better(name))
    return False


def record_best(metrics: Mapping[str, float], settings: TrainingSettings, state: TrainingState) -> bool:
    """Records a validation in `state`; returns True if the model is the best so far."""
    found = better(metrics, settings, state)
    if all(found):
        state.best_step = state.step
        state.best_loss, state.best_chrf = _known(metrics, "loss"), _known(metrics, "chrf++")
    if found[0]:
        state.best_value = metrics[measured_name(settings.best_metric)]
    if settings.second_metric and found[1]:
        state.second_value = metrics[measured_name(settings.second_metric)]
    state.validations_since_best = 0 if any(found) else state.validations_since_best + 1
    return all(found)


def reset_best(state: TrainingState) -> None:
    """Resets the best values, so that the next validation is the best."""
    state.best_value = state.second_value = state.best_loss = state.best_chrf = None
    state.best_step = state.validations_since_best = 0


def _known(metrics: Mapping[str, float], name: str) -> float | None:
    """The value of a metric; None if it was not measured, or is not a number."""
    value = metrics.get(name, math.nan)
    return None if math.isnan(value) else value


def _is_not_worse(value: float, best: float | None, *, more: bool) -> bool:
    """True if `value` is at least as good as `best`; NaN never is."""
    if best is None or math.isnan(value):
        return not math.isnan(value)
    return value >= best if more else value <= best
