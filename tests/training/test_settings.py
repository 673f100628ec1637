"""What a recipe's `[training]` section may say, and what it means where it says nothing."""

import dataclasses
import math

import numpy as np
import pytest

from regard.data.corpus import CorpusSettings, LinePolicy
from regard.data.documents import DocumentSettings
from regard.data.labelled import LabelledSettings
from regard.data.loader import LoaderSettings
from regard.data.tokenizer_training import TokenizerSettings
from regard.distributed.settings import DistributedSettings
from regard.errors import RecipeError, UserError
from regard.models.adapters import AdapterSettings
from regard.recipe import read
from regard.training.collapse import CollapseSettings
from regard.training.distillation import DistillationSettings
from regard.training.optimizer import OptimizerSettings
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings, is_higher_better

POSITIVE = ("max_steps", "accumulate", "report_every", "validate_every", "save_every")
COUNTS = ("average_last", "patience", "nonfinite_skips", "seed")
WEIGHTS = ("clip_norm", "r_drop")
SHARES = ("label_smoothing", "moving_average")


@pytest.mark.parametrize(
    ("name", "wrong", "least"),
    [
        *((name, 0, 1) for name in POSITIVE),
        *((name, -1, 0) for name in COUNTS),
        *((name, -0.1, 0.0) for name in WEIGHTS),
        *((name, wrong, right) for name in SHARES for wrong, right in ((-0.1, 0.0), (1.0, 0.999))),
        ("seed", 2**62, 2**62 - 1),
        ("average_last", 1, 2),
        ("keep", 1, 2),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name_and_the_nearest_that_can_is_taken(name, wrong, least):
    with pytest.raises(RecipeError, match=rf"training\.{name}"):
        TrainingSettings(**{name: wrong})
    assert getattr(TrainingSettings(**{name: least}), name) == least


def test_a_seed_cannot_be_turned_off():
    for name, hint in (("seed", "any whole number from 0 on"), ("patience", "0 turns it off")):
        with pytest.raises(RecipeError, match=name) as refused:
            TrainingSettings(**{name: -1})
        assert refused.value.hint == hint


def test_options_of_a_loss_are_what_a_recipe_can_have():
    with pytest.raises(RecipeError, match=r"training\.loss_options must be numbers, texts and lists"):
        TrainingSettings(loss="mine", loss_options={"function": math.sin})


def test_only_metrics_that_are_known_or_have_a_sign_may_be_better_if_higher():
    better = {"bleu": True, "loss": False, "+agreement": True, "-perplexity": False, "perplexity": False}
    assert {metric: is_higher_better(metric) for metric in better} == better


@pytest.mark.parametrize("name", ["patience", "average_last"])
def test_training_on_the_validation_data_too_has_nothing_to_select_by(name):
    with pytest.raises(RecipeError, match=rf"training\.refit and training\.{name} are both set") as refused:
        TrainingSettings(refit=True, **{name: 3})
    assert f"--set training.{name}=0" in refused.value.hint
    assert TrainingSettings(refit=True).refit


def test_as_many_checkpoints_are_kept_as_are_averaged():
    assert TrainingSettings(keep=3).kept_checkpoints == 3
    assert TrainingSettings(keep=3, average_last=5).kept_checkpoints == 5


def test_the_best_model_is_chosen_by_one_metric_or_by_two():
    assert TrainingSettings(best_metric="bleu").choosing == ("bleu",)
    assert TrainingSettings(second_metric="accuracy").choosing == ("loss", "accuracy")


def test_the_warm_up_of_a_run_is_that_of_its_schedule():
    assert TrainingSettings(max_steps=300, schedule=ScheduleSettings(warmup=0.1)).warmup == 30


def test_a_recipe_without_these_keys_keeps_its_meaning():
    """The defaults are promised: a change of one changes all recipes that do not name it."""
    defaults = {
        "seed": 1,
        "max_steps": 10_000,
        "accumulate": 1,
        "clip_norm": 0.0,
        "label_smoothing": 0.1,
        "loss": "",
        "loss_options": {},
        "r_drop": 0.0,
        "moving_average": 0.0,
        "average_last": 0,
        "refit": False,
        "precision": "auto",
        "products": "auto",
        "recompute_activations": False,
        "report_every": 50,
        "validate_every": 500,
        "save_every": 500,
        "keep": 2,
        "patience": 0,
        "best_metric": "loss",
        "second_metric": None,
        "nonfinite_skips": 5,
        "collapse": CollapseSettings(retries=2, after=500),
        "freeze": (),
        "adapter": None,
        "distillation": None,
        "schedule": ScheduleSettings(
            kind="inverse_square_root", learning_rate=None, warmup_steps=None, final=0.0, cooldown=0.0
        ),
        "optimizer": OptimizerSettings(
            kind="adam", beta1=0.9, beta2=0.98, epsilon=1e-9, weight_decay=0.0, l2=0.0, layer_decay=1.0
        ),
    }
    assert {
        field.name: getattr(TrainingSettings(), field.name) for field in dataclasses.fields(TrainingSettings)
    } == defaults


def test_settings_can_be_keys():
    assert len({TrainingSettings(), TrainingSettings(), TrainingSettings(seed=2)}) == 2


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (TrainingSettings, {"max_steps": "4"}, r"training\.max_steps must be an integer, not '4'"),
        (TrainingSettings, {"max_steps": 2.5}, r"training\.max_steps must be an integer, not 2\.5"),
        (TrainingSettings, {"clip_norm": math.nan}, r"training\.clip_norm must be a finite number, not nan"),
        (TrainingSettings, {"refit": "no"}, r"training\.refit must be true or false, not 'no'"),
        (TrainingSettings, {"patience": True}, r"training\.patience must be an integer, not True"),
        (TrainingSettings, {"freeze": "encoder"}, r"training\.freeze must be a list"),
        (TrainingSettings, {"precision": "float23"}, r"training\.precision must be one of"),
        (
            TrainingSettings,
            {"schedule": "constant"},
            r"training\.schedule must be ScheduleSettings, not 'c",
        ),
        (TrainingSettings, {"optimizer": None}, r"training\.optimizer must be OptimizerSettings, not None"),
        (ScheduleSettings, {"warmup_steps": 0.1}, r"warmup_steps must be an integer, not 0\.1"),
        (ScheduleSettings, {"learning_rate": math.nan}, "learning_rate must be a finite number"),
        (ScheduleSettings, {"kind": None}, "kind must be a string, not None"),
        (OptimizerSettings, {"epsilon": math.nan}, "epsilon must be a finite number"),
        (OptimizerSettings, {"options": [1]}, "options must be a table"),
        (CollapseSettings, {"after": 0.5}, r"training\.collapse\.after must be an integer"),
        (DistillationSettings, {"teacher": 3}, "teacher must be a string"),
        (AdapterSettings, {"rank": 8.0}, r"rank must be an integer, not 8\.0"),
        (AdapterSettings, {"targets": "feed_forward"}, "targets must be a list"),
        (LoaderSettings, {"batch_tokens": "4096"}, "batch_tokens must be an integer, not '4096'"),
        (LoaderSettings, {"window": math.inf}, "window must be an integer, not inf"),
        (CorpusSettings, {"synthetic": "copy", "size": "9"}, "size must be an integer, not '9'"),
        (LinePolicy, {"max_characters": 2.5}, r"max_characters must be an integer, not 2\.5"),
        (DocumentSettings, {"file": "a", "share": (0, True)}, r"share\[1\] must be a number, not True"),
        (LabelledSettings, {"file": 3, "format": "csv"}, "file must be a string, not 3"),
        (TokenizerSettings, {"dropout": math.nan}, "dropout must be a finite number"),
        (DistributedSettings, {"strategy": "fsdp"}, "strategy must be one of 'ddp', 'fsdp2'"),
    ],
    ids=str,
)
def test_python_refuses_the_types_that_a_recipe_refuses(monkeypatch, kind, wrong, message):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(UserError, match=message) as refused:
        kind(**wrong)
    assert refused.value.hint
    with pytest.raises(RecipeError):
        read(kind, wrong)


def test_numbers_of_numpy_and_lists_become_what_a_recipe_has(monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    settings = TrainingSettings(max_steps=np.int64(4), clip_norm=1, r_drop=np.float32(0.5), freeze=["a"])
    assert settings == TrainingSettings(max_steps=4, clip_norm=1.0, r_drop=0.5, freeze=("a",))
    assert [type(each) for each in (settings.max_steps, settings.clip_norm, settings.r_drop)] == [
        int,
        float,
        float,
    ]
    assert hash(settings)
