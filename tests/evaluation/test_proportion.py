"""Wilson intervals: known values, valid at 0 and 1, narrower with more examples."""

import math

import pytest

from regard.evaluation.proportion import wilson_interval


def test_known_values():
    """Newcombe 1998, table I: 81 of 263 and 15 of 148."""
    assert wilson_interval(81, 263) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    assert wilson_interval(15, 148) == (pytest.approx(0.0624, abs=1e-4), pytest.approx(0.1605, abs=1e-4))


def test_an_end_is_an_end_and_leaves_doubt():
    low, high = wilson_interval(10, 10)
    assert low < 0.75
    assert high == pytest.approx(1)
    low, high = wilson_interval(0, 10)
    assert low == pytest.approx(0)
    assert high > 0.25


def test_right_and_wrong_mirror_each_other():
    low, high = wilson_interval(30, 100)
    assert wilson_interval(70, 100) == (pytest.approx(1 - high), pytest.approx(1 - low))


def test_it_is_the_share_that_a_score_test_does_not_reject():
    low, high = wilson_interval(985, 1000)
    for bound in (low, high):
        z = (0.985 - bound) / math.sqrt(bound * (1 - bound) / 1000)
        assert abs(z) == pytest.approx(1.959964, abs=1e-4)
