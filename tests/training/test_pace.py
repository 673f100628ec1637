"""The remaining time is estimated from the mean times of updates and validations."""

import pytest

from regard.training.pace import Pace, time_left, validations_after
from regard.training.settings import TrainingSettings
from regard.training.state import TimedCount

SETTINGS = TrainingSettings(max_steps=100, validate_every=30)  # at 30, 60, 90, 100


@pytest.mark.parametrize(("step", "count"), [(0, 4), (29, 4), (30, 3), (90, 1), (99, 1), (100, 0)])
def test_validations_that_are_to_come(step, count):
    assert validations_after(step, SETTINGS) == count


def test_the_time_left_is_that_of_updates_and_validations():
    left = time_left(40, SETTINGS, TimedCount(count=10, seconds=5.0), TimedCount(count=1, seconds=7.0))
    assert left.seconds == pytest.approx(60 * 0.5 + 3 * 7.0)
    assert left.whole


def test_before_the_first_validation_the_estimate_is_incomplete():
    assert not time_left(10, SETTINGS, TimedCount(count=10, seconds=5.0), TimedCount()).whole
    assert time_left(100, SETTINGS, TimedCount(count=10, seconds=5.0), TimedCount()).whole, "none is to come"


def test_the_first_update_which_is_slow_does_not_count_once_there_are_others(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("regard.training.pace.time.perf_counter", lambda: now[0])
    pace = Pace()
    for seconds in (9.0, 1.0, 3.0):
        pace.start()
        now[0] += seconds + 5.0
        pace.exclude(5.0)  # a validation
        assert pace.finish() == seconds
    assert pace.left(90, SETTINGS, TimedCount(count=1, seconds=4.0)).seconds == pytest.approx(10 * 2.0 + 4.0)


def test_the_time_of_the_only_update_counts(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("regard.training.pace.time.perf_counter", lambda: now[0])
    pace, expected = Pace(), [9.0, 1.0]
    for step, seconds in enumerate((9.0, 1.0), start=1):
        pace.start()
        now[0] += seconds
        pace.finish()
        left = pace.left(step, SETTINGS, TimedCount(count=1, seconds=0.0))
        assert left.seconds == (100 - step) * expected[step - 1]


def test_after_the_end_nothing_is_left():
    left = time_left(101, SETTINGS, TimedCount(count=10, seconds=5.0), TimedCount(count=1, seconds=7.0))
    assert left.seconds == 0.0


def test_a_last_validation_that_is_due_anyway_is_one():
    assert validations_after(0, TrainingSettings(max_steps=90, validate_every=30)) == 3
    assert validations_after(0, TrainingSettings(max_steps=91, validate_every=30)) == 4
