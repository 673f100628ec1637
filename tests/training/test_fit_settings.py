"""Each setting changes a run of `fit`, or is refused by name; no field of `TrainingSettings` is ignored."""

import dataclasses
import functools

import pytest
import torch
from torch import nn

from regard.data import LoaderSettings, TensorExamples
from regard.errors import RecipeError
from regard.models.adapters import AdapterSettings
from regard.models.build import build_model
from regard.models.vision import VisionConfig
from regard.training import (
    CrossEntropy,
    LabelCrossEntropy,
    Loss,
    ScheduleSettings,
    SquaredError,
    TrainingSettings,
    fit,
)
from regard.training.collapse import CollapseSettings
from regard.training.distillation import DistillationSettings
from regard.training.fit_settings import APPLIED, REFUSED, refuse_unused_settings
from regard.training.losses import LOSSES
from regard.training.optimizer import OptimizerSettings
from regard.training.products import has_bfloat16
from regard.training.r_drop import RDrop, refuse_without_dropout
from regard.weights import RunFolder

RATE = ScheduleSettings(kind="constant", learning_rate=0.05, warmup_steps=1)
BASE = TrainingSettings(max_steps=24, validate_every=3, save_every=3, report_every=4, schedule=RATE)
NAMES = [each.name for each in dataclasses.fields(TrainingSettings)]
# another value than that of BASE
CHANGES = {
    "seed": 2,
    "max_steps": 23,
    "accumulate": 2,
    "clip_norm": 0.01,
    "label_smoothing": 0.5,
    "loss": "test_squared",
    "loss_options": {"power": 3},
    "r_drop": 5.0,
    "moving_average": 0.9,
    "average_last": 2,
    "refit": True,
    "precision": "bfloat16",
    "products": "bfloat16",
    "recompute_activations": True,
    "report_every": 5,
    "validate_every": 4,
    "save_every": 4,
    "keep": 3,
    "patience": 1,
    "best_metric": "accuracy",
    "second_metric": "accuracy",
    "nonfinite_skips": 1,
    "collapse": CollapseSettings(after=0),
    "freeze": ("bias",),
    "adapter": AdapterSettings(),
    "distillation": DistillationSettings(teacher="somewhere"),
    "schedule": dataclasses.replace(RATE, learning_rate=0.02),
    "optimizer": OptimizerSettings(kind="adamw", weight_decay=0.1),
}


@pytest.fixture
def squared_loss(monkeypatch):
    squared = functools.partial(nn.functional.cross_entropy, reduction="none")
    monkeypatch.setitem(LOSSES.added, "test_squared", lambda *given, power=2: squared(*given) ** power)


class NotFiniteTwice(LabelCrossEntropy):
    """The loss of the labels, which is NaN in the calls 8 and 9."""

    calls = 0

    def of_logits(self, logits, labels) -> Loss:
        type(self).calls += 1
        loss = super().of_logits(logits, labels)
        return dataclasses.replace(loss, total=loss.total * torch.nan) if self.calls in (8, 9) else loss


def rows():
    inputs = torch.randn(60, 64, generator=torch.Generator().manual_seed(1))
    return TensorExamples(inputs, inputs[:, :3].argmax(dim=1))


def run(out, settings):
    """What a run leaves: weights, records without times, checkpoints, step of the best model, state."""
    torch.manual_seed(1)
    model, examples, records, validations = nn.Linear(64, 3), rows(), [], []

    def validate(model):
        validations.append(None)
        loss = nn.functional.cross_entropy(model(examples.inputs), examples.labels)
        worse = 5.0 if len(validations) == 3 else 0.0
        # the accuracy is best at the second validation; the outputs collapse at the fourth and fifth
        few = 1.0 if len(validations) in (4, 5) else 90.0
        later = len(validations) if len(validations) > 2 else 0
        return {"loss": loss.item() + worse, "accuracy": 50.0 - later, "distinct_outputs": few}

    NotFiniteTwice.calls = 0
    state = fit(
        model,
        examples,
        out,
        objective=NotFiniteTwice(),
        settings=settings,
        batches=LoaderSettings(batch_examples=20),
        validate=validate,
        report=records.append,
    )
    weights = {name: tensor.tolist() for name, tensor in model.state_dict().items()}
    best = RunFolder(out).best()
    records = [
        {key: value for key, value in each.items() if key not in ("tokens_per_second", "seconds")}
        for each in records
    ]
    steps = sorted(path.name for path in (out / "checkpoints").iterdir())
    return weights, records, steps, best.manifest["step"], state.best_value, state.validations_since_best


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return run(tmp_path_factory.mktemp("base"), BASE)


def test_every_setting_is_applied_or_refused_and_none_is_both():
    assert set(NAMES) == APPLIED | set(REFUSED)
    assert not APPLIED & set(REFUSED)


def test_two_runs_with_the_same_settings_are_equal(tmp_path, base):
    assert run(tmp_path, BASE) == base


@pytest.mark.filterwarnings("ignore:training has collapsed")
@pytest.mark.parametrize("name", NAMES)
def test_a_setting_changes_the_run_or_is_refused_by_name(tmp_path, name, squared_loss, base):
    if name == "products" and not has_bfloat16():
        pytest.skip("this processor has no instructions for bfloat16")
    needed = {"loss": CHANGES["loss"]} if name == "loss_options" else {}
    changed = dataclasses.replace(BASE, **needed, **{name: CHANGES[name]})
    if name in REFUSED:
        with pytest.raises(RecipeError, match=name) as caught:
            run(tmp_path / "changed", changed)
        assert caught.value.hint
        assert not (tmp_path / "changed").exists()
    elif name == "recompute_activations":  # the same bits from less memory: see test_recomputation.py
        with pytest.raises(RecipeError, match="Linear has no list of `blocks`"):
            run(tmp_path / "changed", changed)
    else:
        assert run(tmp_path / "changed", changed) != base


def test_frozen_weights_stay_and_can_be_trained_again_afterwards(tmp_path):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 4), nn.Linear(4, 3))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fit(
        model,
        rows(),
        tmp_path / "run",
        objective=LabelCrossEntropy(),
        settings=dataclasses.replace(BASE, freeze=("0",)),
    )
    same = [name for name, tensor in model.state_dict().items() if torch.equal(tensor, before[name])]
    assert same == ["0.weight", "0.bias"]
    assert all(each.requires_grad for each in model.parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"freeze": ("nosuch",)}, "nosuch"),
        ({"freeze": ("*",)}, "nothing to train"),
        ({"loss": "nosuch"}, "nosuch"),
        ({"best_metric": "bleu"}, "bleu"),
        ({"second_metric": "accuracy"}, "accuracy"),
    ],
)
def test_what_cannot_be_applied_is_refused_before_training(tmp_path, changes, message):
    model = nn.Linear(64, 3)
    with pytest.raises(RecipeError, match=message) as caught:
        fit(
            model,
            rows(),
            tmp_path / "run",
            objective=LabelCrossEntropy(),
            settings=dataclasses.replace(BASE, **changes),
        )
    assert caught.value.hint
    assert all(each.requires_grad for each in model.parameters())
    assert RunFolder(tmp_path / "run").latest() is None


def test_an_unknown_metric_is_refused_by_name(monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(RecipeError, match="acuracy") as caught:
        dataclasses.replace(BASE, best_metric="acuracy")
    assert "'accuracy'" in caught.value.hint


@pytest.mark.parametrize(
    ("objective", "smoothing", "is_refused"),
    [
        (CrossEntropy(smoothing=0.2), 0.2, False),
        (CrossEntropy(smoothing=0.2), 0.3, True),
        (CrossEntropy(), 0.0, False),
        (CrossEntropy(smoothing=0.2), 0.0, True),
        (SquaredError(), 0.0, False),
        (CrossEntropy(), 0.1, False),  # the default cannot be distinguished from what was set
    ],
)
def test_label_smoothing_is_refused_unless_it_is_that_of_the_objective(objective, smoothing, is_refused):
    settings = dataclasses.replace(BASE, label_smoothing=smoothing)
    if is_refused:
        with pytest.raises(RecipeError, match="label_smoothing"):
            refuse_unused_settings(settings, LoaderSettings(), objective, has_validate=False)
    else:
        refuse_unused_settings(settings, LoaderSettings(), objective, has_validate=False)


def test_a_longest_length_of_batches_is_refused():
    with pytest.raises(RecipeError, match="max_tokens = 9"):
        refuse_unused_settings(BASE, LoaderSettings(max_tokens=9), LabelCrossEntropy(), has_validate=False)


def test_r_drop_is_that_of_the_objective_of_two_passes(tmp_path):
    def weights(name, objective, **changes):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(64, 8), nn.Dropout(0.3), nn.Linear(8, 3))
        settings = dataclasses.replace(BASE, **changes)
        fit(model, rows(), tmp_path / name, objective=objective, settings=settings)
        return [each.tolist() for each in model.parameters()], RunFolder(tmp_path / name).metrics()[-1][
            "loss"
        ]

    by_setting = weights("setting", LabelCrossEntropy(), r_drop=2.0)
    assert by_setting == weights("objective", RDrop(base=LabelCrossEntropy(), weight=2.0))
    assert by_setting != weights("none", LabelCrossEntropy())


def test_r_drop_without_effect_is_refused(tmp_path):
    settings = dataclasses.replace(BASE, r_drop=2.0)
    sizes = {"image_size": 4, "channels": 1, "patch_size": 2, "d_model": 8, "num_heads": 2, "d_ff": 8}
    no_dropout = VisionConfig(**sizes, num_layers=1, num_labels=3, dropout=0.0)
    for model, objective, message in (
        (nn.Linear(64, 3), RDrop(base=LabelCrossEntropy()), "RDrop is not a function of logits"),
        (build_model(no_dropout, seed=0), LabelCrossEntropy(), "the model has no dropout"),
    ):
        with pytest.raises(RecipeError, match=message):
            fit(model, rows(), tmp_path / "run", objective=objective, settings=settings)
    refuse_without_dropout(build_model(dataclasses.replace(no_dropout, dropout=0.1), seed=0), 2.0)
