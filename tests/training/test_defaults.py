"""The settings of a recipe that says nothing: a recipe of today trains the same tomorrow."""

import dataclasses

import pytest

from regard.training.collapse import CollapseSettings
from regard.training.distillation import DistillationSettings
from regard.training.objective import (
    CrossEntropy,
    LabelCrossEntropy,
    NextToken,
    SquaredError,
)
from regard.training.optimizer import OptimizerSettings
from regard.training.r_drop import RDrop
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState

DEFAULTS = {
    TrainingSettings: {
        "seed": 1, "max_steps": 10_000, "accumulate": 1, "clip_norm": 0.0, "label_smoothing": 0.1, "loss": "",
        "r_drop": 0.0, "moving_average": 0.0, "average_last": 0, "refit": False, "precision": "auto",
        "products": "auto", "recompute_activations": False,
        "report_every": 50, "validate_every": 500, "save_every": 500, "keep": 2, "patience": 0,
        "best_metric": "loss", "second_metric": None, "nonfinite_skips": 5, "freeze": (), "adapter": None,
        "distillation": None,
    },
    OptimizerSettings: {
        "kind": "adam", "beta1": 0.9, "beta2": 0.98, "epsilon": 1e-9, "weight_decay": 0.0, "l2": 0.0,
        "layer_decay": 1.0,
    },
    ScheduleSettings: {
        "kind": "inverse_square_root", "learning_rate": None, "warmup_steps": None, "warmup": None,
        "final": 0.0, "cooldown": 0.0,
    },
    CollapseSettings: {"retries": 2, "after": 500},
    CrossEntropy: {"smoothing": 0.0, "pad_id": 0},
    NextToken: {"smoothing": 0.0},
    LabelCrossEntropy: {"smoothing": 0.0, "weights": None},
    SquaredError: {"std": 1.0},
    RDrop: {"weight": 5.0},
    DistillationSettings: {"weight": 0.5, "temperature": 1.0},
}  # fmt: skip


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_a_setting_that_is_not_given(kind):
    found = {field.name: field.default for field in dataclasses.fields(kind)}
    assert {name: found[name] for name in DEFAULTS[kind]} == DEFAULTS[kind]
    others = {name for name, value in found.items() if value is not dataclasses.MISSING} - DEFAULTS[
        kind
    ].keys()
    assert not others


def test_a_run_begins_at_nothing():
    state = TrainingState()
    counts = {name: value for name, value in state.to_dict().items() if isinstance(value, int | float)}
    assert set(counts.values()) == {0}
    assert len(counts) > 6
    watch = {name: value for name, value in vars(state.watch).items() if isinstance(value, int | float)}
    assert set(watch.values()) == {0}
    assert vars(state.validations) == {"count": 0, "seconds": 0.0}
