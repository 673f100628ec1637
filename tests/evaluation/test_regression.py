"""Mean absolute error and correlation."""

import numpy as np
import pytest

from regard.evaluation.regression import (
    correlation,
    determination,
    mean_absolute_error,
    pairs_interval,
    rank_correlation,
    root_mean_squared_error,
)

TRUTH = [1.0, 2.0, 4.0, 8.0]


def test_distances_are_in_the_unit_of_the_numbers():
    assert mean_absolute_error([2.0, 2.0, 2.0, 2.0], TRUTH) == pytest.approx((1 + 0 + 2 + 6) / 4)
    assert mean_absolute_error(TRUTH, TRUTH) == 0


def test_squared_errors_and_the_share_of_the_variance_that_they_leave_out():
    assert root_mean_squared_error([2.0, 2.0, 2.0, 2.0], TRUTH) == pytest.approx(
        ((1 + 0 + 4 + 36) / 4) ** 0.5
    )
    assert determination(TRUTH, TRUTH) == 1
    assert determination([sum(TRUTH) / 4] * 4, TRUTH) == 0
    assert determination([-value for value in TRUTH], TRUTH) < 0
    assert determination(TRUTH, [3.0] * 4) == 0


def test_ranks_correlate_whatever_the_scale_and_equal_values_share_theirs():
    assert rank_correlation([value**3 for value in TRUTH], TRUTH) == pytest.approx(1)
    assert rank_correlation([1.0, 1.0, 2.0, 2.0], TRUTH) == pytest.approx(
        correlation([1.5, 1.5, 3.5, 3.5], [1, 2, 3, 4])
    )
    assert rank_correlation([5.0] * 4, TRUTH) == 0


def test_a_line_correlates_at_any_scale():
    assert correlation([3 * value - 7 for value in TRUTH], TRUTH) == pytest.approx(1)
    assert correlation([-value for value in TRUTH], TRUTH) == pytest.approx(-1)
    samples = np.random.default_rng(1).normal(size=(2, 50))
    assert correlation(*samples) == pytest.approx(np.corrcoef(*samples)[0, 1])


def test_what_never_changes_correlates_with_nothing():
    assert correlation([5.0] * 4, TRUTH) == 0


def test_intervals_hold_the_score_and_shrink_with_the_square_root_of_the_examples():
    rng = np.random.default_rng(2)
    labels = rng.normal(size=3600)
    predictions = labels + rng.normal(size=3600)
    widths = {}
    for count in (400, 3600):
        for metric in (mean_absolute_error, correlation):
            low, high = pairs_interval(predictions[:count], labels[:count], metric, resamples=300)
            assert low < metric(predictions[:count], labels[:count]) < high
            widths[metric, count] = high - low
    for metric in (mean_absolute_error, correlation):
        assert widths[metric, 400] / widths[metric, 3600] == pytest.approx(3, rel=0.35)


def test_an_interval_covers_the_true_error_about_as_often_as_it_says():
    rng, hits = np.random.default_rng(3), 0
    for _ in range(200):
        errors = rng.exponential(size=80)
        low, high = pairs_interval(errors, np.zeros(80), mean_absolute_error, resamples=200)
        hits += low < 1 < high
    assert 170 < hits < 200
