"""Mean absolute error and correlation."""

import numpy as np
import pytest

from regard.evaluation.regression import correlation, mean_absolute_error

TRUTH = [1.0, 2.0, 4.0, 8.0]


def test_distances_are_in_the_unit_of_the_numbers():
    assert mean_absolute_error([2.0, 2.0, 2.0, 2.0], TRUTH) == pytest.approx((1 + 0 + 2 + 6) / 4)
    assert mean_absolute_error(TRUTH, TRUTH) == 0


def test_a_line_correlates_at_any_scale():
    assert correlation([3 * value - 7 for value in TRUTH], TRUTH) == pytest.approx(1)
    assert correlation([-value for value in TRUTH], TRUTH) == pytest.approx(-1)
    samples = np.random.default_rng(1).normal(size=(2, 50))
    assert correlation(*samples) == pytest.approx(np.corrcoef(*samples)[0, 1])


def test_what_never_changes_correlates_with_nothing():
    assert correlation([5.0] * 4, TRUTH) == 0
