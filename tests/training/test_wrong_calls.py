"""Calls of the Python library that cannot work: one error that names the value, and what to do."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.data import SequencePairs, TensorExamples
from regard.decoding import BeamSearch, GreedySearch
from regard.errors import ConfigError, FolderError, UserError
from regard.layers import MultiHeadAttention
from regard.models import DecoderOnlyConfig, EncoderDecoderConfig, build_model
from regard.training import (
    CrossEntropy,
    LabelCrossEntropy,
    Loss,
    NextToken,
    ScheduleSettings,
    SquaredError,
    TrainingSettings,
    fit,
)
from regard.training.objective import refuse_other_inputs
from regard.weights import load_model

SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 32}
SCHEDULE = ScheduleSettings(kind="constant", learning_rate=0.01, warmup_steps=1)
SETTINGS = TrainingSettings(max_steps=2, validate_every=2, save_every=2, schedule=SCHEDULE)
IDS = torch.randint(4, 14, (8, 6), generator=torch.Generator().manual_seed(1))
ROWS = TensorExamples(IDS[:, :-1], IDS[:, 1:])
SMOOTHED = (CrossEntropy, NextToken, LabelCrossEntropy)
PAIRS = SequencePairs(IDS.tolist(), IDS.tolist())


def translation():
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return build_model(EncoderDecoderConfig(src_vocab_size=14, tgt_vocab_size=14, **layers, **SIZES), seed=1)


def language_model():
    return build_model(DecoderOnlyConfig(vocab_size=14, num_layers=1, **SIZES), seed=1)


@pytest.mark.parametrize(
    ("make", "examples", "objective", "message"),
    [
        (language_model, ROWS, NextToken(), "NextToken needs batches with ids .* a TensorBatch has no ids"),
        (
            translation,
            ROWS,
            CrossEntropy(),
            "CrossEntropy needs batches with src_ids .* a TensorBatch has no",
        ),
        (language_model, PAIRS, CrossEntropy(), "CrossEntropy needs a model .* a DecoderOnly has no encode"),
        (translation, PAIRS, LabelCrossEntropy(), "needs batches with inputs .* a PairBatch has no inputs"),
        (translation, PAIRS, CrossEntropy, "the objective CrossEntropy is not a function"),
    ],
)
def test_an_objective_for_other_examples_or_models_is_refused(tmp_path, make, examples, objective, message):
    with pytest.raises(ConfigError, match=message) as caught:
        fit(make(), examples, tmp_path / "run", objective=objective, settings=SETTINGS)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("objective", "message", "hint"),
    [
        (
            nn.CrossEntropyLoss(),
            "CrossEntropyLoss is a function of outputs and labels",
            "LabelCrossEntropy()",
        ),
        (F.cross_entropy, "cross_entropy is a function of outputs and labels", "LabelCrossEntropy()"),
        (partial(F.cross_entropy, reduction="sum"), "cross_entropy is a function", "LabelCrossEntropy()"),
        (nn.MSELoss(), "MSELoss is a function of outputs and labels", "SquaredError()"),
        (lambda model: 1, "<lambda>: too many positional arguments", "called with model, batch"),
    ],
)
def test_a_function_of_something_else_than_a_model_and_a_batch_is_refused(tmp_path, objective, message, hint):
    """The loss of PyTorch, which most people try first, gave PyTorch's own TypeError."""
    with pytest.raises(ConfigError, match=message) as caught:
        fit(language_model(), ROWS, tmp_path / "run", objective=objective, settings=SETTINGS)
    assert hint in caught.value.hint


class SumOfErrors(nn.Module):
    def forward(self, model, batch):
        total = F.cross_entropy(model(*batch.inputs), batch.labels, reduction="sum")
        return Loss(total=total, nll=total, num_targets=len(batch.labels))


def test_a_compiled_module_is_an_objective():
    objective = torch.compile(SumOfErrors(), backend="eager")
    refuse_other_inputs(nn.Linear(4, 3), objective, TensorExamples(torch.randn(8, 4), torch.arange(8) % 3))


def test_a_single_example_is_enough():
    refuse_other_inputs(
        nn.Linear(4, 3), LabelCrossEntropy(), TensorExamples(torch.ones(1, 4), torch.tensor([2]))
    )


def test_examples_without_lengths_and_batches_are_refused(monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(ConfigError, match="the examples are list, without lengths and batch"):
        refuse_other_inputs(language_model(), NextToken(), IDS.tolist())


@pytest.mark.parametrize("name", ["validate", "report"])
@pytest.mark.parametrize(
    ("given", "message"),
    [(lambda: None, "`{}`: too many positional arguments"), (3, "`{}` is int, which cannot be called")],
)
def test_a_validation_or_a_report_that_cannot_be_called_is_refused(
    tmp_path, name, given, message, monkeypatch
):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(UserError, match=message.format(name)):
        fit(
            language_model(),
            ROWS,
            tmp_path / "run",
            objective=LabelCrossEntropy(),
            settings=SETTINGS,
            **{name: given},
        )


@pytest.mark.parametrize(("make", "examples"), [(translation, PAIRS), (language_model, ROWS)])
def test_what_fit_wrote_is_loaded_without_tokenisers(tmp_path, make, examples):
    model = make()
    objective = CrossEntropy() if examples is PAIRS else LabelCrossEntropy()
    fit(model, examples, tmp_path / "run", objective=objective, settings=SETTINGS)
    loaded = load_model(tmp_path / "run")
    assert {*loaded.model.state_dict()} == {*model.state_dict()}
    with pytest.raises(FolderError, match="has no tokeniser"):
        _ = loaded.tokenizers


@pytest.mark.parametrize("search", [BeamSearch, GreedySearch])
def test_numbers_in_place_of_limits_and_penalties_are_refused(search, monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(ConfigError, match="limits = 20 is not a LengthLimits") as caught:
        check_search(search(), limits=20)
    assert caught.value.hint == "LengthLimits(most=20)"
    with pytest.raises(ConfigError, match=r"length_penalty = 0\.6 is not a LengthPenalty") as caught:
        check_search(search(), length_penalty=0.6)
    assert "Power(alpha=0.6)" in caught.value.hint


def check_search(search, **changes):
    """The check of a search with values that the type checks of the tests would not let through."""
    from regard.decoding import search_checks

    for name, value in changes.items():
        object.__setattr__(search, name, value)
    search_checks.check_search(search)


def test_settings_of_another_type_are_refused():
    for name, value, kind in (("d_model", "64", "int"), ("dropout", "0.1", "float"), ("tied", "no", "bool")):
        config = language_model().config
        object.__setattr__(config, name, value)
        with pytest.raises(ConfigError, match=f"{name} = '{value}' has the wrong type") as caught:
            config.refuse_other_types()
        assert caught.value.hint == f"{name} must be of type {kind}"
    for dropout in (-0.1, 1.0, 1.5):
        with pytest.raises(ValueError, match="at least 0 and below 1"):
            MultiHeadAttention(16, 4, dropout=dropout)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((partial(kind, smoothing=1.5), "smoothing = 1.5 is out of range") for kind in SMOOTHED),
        *((partial(kind, smoothing=-0.1), "smoothing = -0.1 is out of range") for kind in SMOOTHED),
        *((partial(kind, smoothing="0.1"), "smoothing must be a number, not '0.1'") for kind in SMOOTHED),
        *((partial(kind, smoothing=math.nan), "smoothing must be a finite number") for kind in SMOOTHED),
        (partial(CrossEntropy, pad_id=-1), "pad_id = -1 is below 0"),
        (partial(LabelCrossEntropy, weights=(1.0, -1.0)), r"weights = \(1.0, -1.0\) are no weights"),
        (partial(LabelCrossEntropy, weights=(0.0, 0.0)), r"weights = \(0.0, 0.0\) are no weights"),
        (partial(LabelCrossEntropy, weights=()), r"weights = \(\) are no weights"),
        (partial(LabelCrossEntropy, weights=0.5), "weights must be a list"),
        (partial(SquaredError, std=0.0), "std = 0.0 is not above 0"),
        (partial(SquaredError, std="1"), "std must be a number, not '1'"),
    ],
)
def test_a_loss_that_cannot_work_is_refused_where_it_is_made(monkeypatch, make, message):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(ConfigError, match=message) as refused:
        make()
    assert refused.value.hint
