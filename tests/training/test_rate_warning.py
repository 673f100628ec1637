"""A run is warned of if its rate stays at 90 % of the peak or below; the hint is a warm-up that fits."""

import pytest

from regard.training.rate_warning import rate_warning
from regard.training.schedule import SCHEDULES, ScheduleSettings, register_schedule
from regard.training.settings import TrainingSettings


def warning(max_steps, change="{}", **schedule):
    settings = TrainingSettings(max_steps=max_steps, schedule=ScheduleSettings(**schedule))
    return rate_warning(settings, change, d_model=16)


def test_the_limit_is_nine_tenths_of_the_peak():
    assert "takes 100 of 90 updates, so the learning rate reaches 90 % of" in warning(90, warmup_steps=100)
    assert not warning(91, warmup_steps=100)


@pytest.mark.parametrize(("max_steps", "fitting"), [(1000, 100), (50, 5), (4, 1), (1, 1)])
def test_the_hint_is_a_warm_up_of_a_tenth_of_the_run_or_of_one_update(max_steps, fitting):
    found = warning(max_steps, "set {} there", warmup_steps=5000)
    assert found.endswith(f"of its peak: set warmup_steps={fitting} there")
    assert not warning(max_steps, warmup_steps=fitting)


def test_a_warm_up_that_is_a_share_gets_a_share_as_a_hint():
    found = warning(100, warmup=0.9, cooldown=1.0)
    assert "takes 90 of 100 updates and the cooldown the last 100, so" in found
    assert found.endswith(": warmup=0.1")


def test_a_cooldown_is_named_where_there_is_one():
    assert "cooldown" not in warning(100, warmup_steps=200)
    assert "and the cooldown the last 30," in warning(100, warmup_steps=200, cooldown=0.3)


def test_a_run_that_is_all_warm_up_has_no_factors_that_could_be_odd(monkeypatch):
    monkeypatch.setattr(SCHEDULES, "added", {})
    register_schedule("huge")(lambda step, *_: 100.0)
    assert not warning(100, kind="huge", learning_rate=0.01, warmup_steps=100)
    assert "factors of up to 100" in warning(101, kind="huge", learning_rate=0.01, warmup_steps=100)
