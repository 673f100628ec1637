"""The best model is chosen by one metric or by two; NaN is never better, and of one metric equals are not."""

import math
import re

import pytest

from regard.errors import RecipeError
from regard.training.best import better, record_best, reset_best
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState

LOSS = TrainingSettings(best_metric="loss")
BLEU = TrainingSettings(best_metric="bleu")
TWO = TrainingSettings(best_metric="accuracy", second_metric="loss")


@pytest.mark.parametrize(
    ("settings", "value", "is_better"),
    [
        (LOSS, 0.9, True),
        (LOSS, 1.0, False),
        (LOSS, 1.1, False),
        (LOSS, math.nan, False),
        (BLEU, 0.9, False),
        (BLEU, 1.0, False),
        (BLEU, 1.1, True),
        (BLEU, math.nan, False),
    ],
)
def test_one_metric_has_to_be_better_than_ever(settings, value, is_better):
    state = TrainingState(best_value=1.0)
    assert better({settings.best_metric: value}, settings, state) == [is_better]


@pytest.mark.parametrize(("metric", "values"), [("-perplexity", (9.0, 8.0)), ("+agreement", (8.0, 9.0))])
def test_a_metric_of_ones_own_has_the_sign_of_what_is_better(metric, values):
    state, settings = TrainingState(), TrainingSettings(best_metric=metric)
    [name] = settings.choosing
    assert name == metric[1:]
    assert [record_best({name: value}, settings, state) for value in (*values, values[0])] == [
        True,
        True,
        False,
    ]
    assert state.best_value == values[1]
    two = TrainingSettings(best_metric="loss", second_metric=metric)
    same = TrainingState(best_value=1.0, second_value=values[0])
    assert better({"loss": 1.0, name: values[1]}, two, same) == [True, True]


@pytest.mark.parametrize(
    ("metric", "hint"),
    [("perplexity", "'-perplexity' if less is better"), ("acuracy", "'accuracy'"), ("-bleu", "write 'bleu'")],
)
def test_a_name_without_a_sign_is_one_of_regards_own(metric, hint):
    with pytest.raises(RecipeError, match=re.escape(repr(metric))) as refused:
        TrainingSettings(second_metric=metric)
    assert hint in refused.value.hint


@pytest.mark.parametrize(("value", "is_better"), [(5.0, True), (math.nan, False)])
def test_the_first_number_is_the_best(value, is_better):
    assert better({"loss": value}, LOSS, TrainingState()) == [is_better]


@pytest.mark.parametrize(
    ("accuracy", "loss", "expected"),
    [
        (50.0, 2.0, [True, True]),  # the same
        (51.0, 1.9, [True, True]),
        (49.0, 1.9, [False, True]),
        (51.0, 2.1, [True, False]),
        (math.nan, 2.0, [False, True]),
    ],
)
def test_each_of_two_metrics_may_be_as_good_as_ever(accuracy, loss, expected):
    state = TrainingState(best_value=50.0, second_value=2.0)
    assert better({"accuracy": accuracy, "loss": loss}, TWO, state) == expected


def test_what_is_recorded_is_the_best_of_each_metric_and_the_step_of_both():
    state = TrainingState(step=3)
    assert record_best({"accuracy": 50.0, "loss": 2.0}, TWO, state)
    state.step = 6
    assert not record_best({"accuracy": 60.0, "loss": 3.0}, TWO, state)
    assert (state.best_step, state.best_value, state.second_value) == (3, 60.0, 2.0)
    assert state.validations_since_best == 0, "one of them was better"
    for count in (1, 2, 3):
        assert not record_best({"accuracy": 10.0, "loss": 9.0}, TWO, state)
        assert state.validations_since_best == count
    assert record_best({"accuracy": 60.0, "loss": 2.0}, TWO, state)
    assert (state.best_step, state.validations_since_best) == (6, 0)


@pytest.mark.parametrize(
    ("bleu", "losses", "best"),
    [
        ([0.0, 0.0, 0.0], [5.0, 4.0, 4.5], 2),  # nothing is right yet: the loss decides
        ([0.0, 0.0], [5.0, math.nan], 1),
        ([0.0, 0.0], [math.nan, 4.0], 1),
        ([6.0, 6.0], [5.0, 4.0], 1),  # equal scores
        ([4.9, 2.0], [5.0, 4.0], 2),  # BLEU is chance
        ([4.9, 2.0], [4.0, 5.0], 1),
        ([0.0, 6.0, 0.0], [5.0, 6.0, 4.0], 2),
        ([0.0, 0.0, 6.0], [5.0, 4.0, 9.0], 3),
    ],
)
def test_of_models_whose_scores_are_0_the_least_loss_is_best(bleu, losses, best):
    state = TrainingState()
    for step, (score, loss) in enumerate(zip(bleu, losses, strict=True), start=1):
        state.step = step
        assert record_best({"bleu": score, "loss": loss}, BLEU, state) == (state.best_step == step)
    assert state.best_step == best
    assert state.validations_since_best == len(bleu) - best
    assert state.best_value == bleu[best - 1]


@pytest.mark.parametrize(
    ("bleu", "chrf", "best"),
    [
        ([3.99, 1.77, 2.30], [10.5, 13.7, 16.1], 3),
        ([4.9, 5.0], [20.0, 19.0], 2),
        ([5.1, 4.9], [18.0, 19.0], 1),
        ([6.0, 7.0, 6.5], [25.0, 24.0, 26.0], 2),
        ([2.0, 3.0], [0.0, 0.0], 2),  # chrF++ and loss are equal
    ],
)
def test_below_a_bleu_of_5_chrf_decides_and_above_it_bleu(bleu, chrf, best):
    state = TrainingState()
    for step, scores in enumerate(zip(bleu, chrf, strict=True), start=1):
        state.step = step
        record_best({**dict(zip(("bleu", "chrf++"), scores, strict=True)), "loss": 4.0}, BLEU, state)
    assert state.best_step == best
    assert (state.best_value, state.best_chrf) == (bleu[best - 1], chrf[best - 1])


def test_without_a_loss_or_with_one_that_is_not_known_equal_scores_are_not_better():
    state = TrainingState(best_value=0.0)
    assert better({"bleu": 0.0, "loss": 1.0}, BLEU, state) == [False]
    assert better({"bleu": 0.0}, BLEU, TrainingState(best_value=0.0, best_loss=3.0)) == [False]


def test_an_error_rate_of_0_cannot_be_improved():
    errors = TrainingSettings(best_metric="error_rate")
    state = TrainingState(best_value=0.0, best_loss=3.0)
    assert better({"error_rate": 0.0, "loss": 1.0}, errors, state) == [False]


@pytest.mark.parametrize(
    ("metric", "nothing", "something"),
    [("error_rate", 100.0, 99.0), ("label_error_rate", 100.0, 99.0), ("accuracy", 0.0, 1.0)],
)
def test_of_models_that_have_nothing_right_the_one_with_the_least_loss_is_best(metric, nothing, something):
    settings = TrainingSettings(best_metric=metric)
    state = TrainingState(best_value=nothing, best_loss=3.0)
    assert better({metric: nothing, "loss": 2.0}, settings, state) == [True]
    assert better({metric: nothing, "loss": 3.0}, settings, state) == [False]
    some_right = TrainingState(best_value=something, best_loss=3.0)
    assert better({metric: something, "loss": 2.0}, settings, some_right) == [False]
    assert better({metric: nothing, "loss": 2.0}, settings, some_right) == [False]


def test_one_metric_leaves_the_second_alone():
    state = TrainingState(step=3)
    assert record_best({"loss": 2.0}, LOSS, state)
    assert (state.best_step, state.best_value, state.second_value) == (3, 2.0, None)


def test_after_a_reset_the_next_validation_is_the_best():
    state = TrainingState(step=9, best_step=6, best_value=1.0, second_value=2.0, validations_since_best=4)
    reset_best(state)
    assert (state.best_step, state.validations_since_best) == (0, 0)
    assert record_best({"accuracy": 0.0, "loss": 9.0}, TWO, state)
    assert state.best_step == 9
