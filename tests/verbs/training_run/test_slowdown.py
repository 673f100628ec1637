"""A run that becomes much slower says so once, if fewer threads could help."""

from dataclasses import replace

import pytest

from regard.training.pace import TimeLeft, Update
from regard.training.threads import threads
from regard.verbs.training_run.slowdown import FIRST, RECENT, REFERENCE, SlowdownWatch

UPDATE = Update(
    step=1,
    loss=1.0,
    learning_rate=0.1,
    targets=1000,
    seconds=0.1,
    is_reported=False,
    left=TimeLeft(seconds=1.0, whole=True),
)


def warnings(*seconds):
    watch = SlowdownWatch()
    found = [watch.warning(replace(UPDATE, seconds=each)) for each in seconds]
    return [each for each in found if each]


@pytest.fixture
def two_threads():
    with threads(2):
        yield


def test_a_slow_phase_is_reported_once(two_threads):
    [warning] = warnings(*[0.1] * 100, *[3.0] * 100, *[0.1] * 100, *[3.0] * 100)
    assert "from 10,000 to" in warning
    assert "--threads 1" in warning


def test_slow_first_updates_and_single_slow_ones_are_not_reported(two_threads):
    assert not warnings(*[9.0] * FIRST, *[0.1] * REFERENCE, *[0.1] * 100)
    assert not warnings(*([0.1] * 100 + [5.0]) * 3)


def test_an_equal_speed_is_not_reported(two_threads):
    assert not warnings(*[3.0] * 200)
    assert not warnings(*[0.1] * 50, *[0.3] * 200)


def test_short_slow_phases_are_not_reported(two_threads):
    assert not warnings(*[0.01] * 50, *[0.1] * RECENT)


def test_nothing_is_reported_with_one_thread():
    with threads(1):
        assert not warnings(*[0.1] * 50, *[3.0] * 100)
