"""The best model so far: which validation is better than all before, by one metric or two."""

import math
from collections.abc import Mapping

from regard.training.settings import METRICS, TrainingSettings
from regard.training.state import TrainingState


def better(metrics: Mapping[str, float], settings: TrainingSettings, state: TrainingState) -> list[bool]:
    """Whether each metric that chooses is better than ever; where there are two, whether it is no worse.

    Two are the rule of the code of Velickovic et al. 2018: small validation sets have few accuracies.
    """
    best = [state.best_value, state.second_value]
    either = settings.second_metric is not None
    return [
        _is_better(metrics[metric], value, more=METRICS[metric], or_equal=either)
        for metric, value in zip(settings.choosing, best, strict=False)
    ]


def note_best(metrics: Mapping[str, float], settings: TrainingSettings, state: TrainingState) -> bool:
    """Enter a validation into `state`; True if the model is to be kept as the best."""
    found = better(metrics, settings, state)
    if all(found):
        state.best_step = state.step
    if found[0]:
        state.best_value = metrics[settings.best_metric]
    if settings.second_metric and found[1]:
        state.second_value = metrics[settings.second_metric]
    state.validations_since_best = 0 if any(found) else state.validations_since_best + 1
    return all(found)


def forget_best(state: TrainingState) -> None:
    """The next validation is the best: what was better before is gone."""
    state.best_value = state.second_value = None
    state.best_step = state.validations_since_best = 0


def _is_better(value: float, best: float | None, *, more: bool, or_equal: bool) -> bool:
    """NaN is never better than anything."""
    if best is None or math.isnan(value):
        return not math.isnan(value)
    return (value > best if more else value < best) or (or_equal and value == best)
