"""Learning rate schedules."""

import itertools
import math
import re

import numpy as np
import pytest
import torch

from regard.errors import RecipeError, UserError
from regard.training.rate_warning import rate_warning
from regard.training.schedule import (
    SCHEDULES,
    Schedule,
    ScheduleSettings,
    refuse_unknown_schedule,
    register_schedule,
)
from regard.training.settings import TrainingSettings

KINDS = ["noam", "inverse_square_root", "cosine", "linear", "constant"]


def schedule(max_steps=1000, d_model=512, **settings):
    return Schedule(settings=ScheduleSettings(**settings), max_steps=max_steps, d_model=d_model)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_update_is_not_wasted_and_warm_up_is_a_straight_line(kind):
    rate = schedule(kind=kind, warmup_steps=100, learning_rate=0.5)
    assert rate(1) > 0
    assert all(math.isclose(rate(step), step * rate(1)) for step in range(1, 101))
    assert max(range(1, 1001), key=rate) == 100 or kind == "constant"


def test_noam_is_equation_3():
    rate = schedule(kind="noam", learning_rate=1.0, warmup_steps=4000, max_steps=100_000)
    for step in (1, 17, 4000, 4001, 99_999):
        assert math.isclose(rate(step), 512**-0.5 * min(step**-0.5, step * 4000**-1.5))


def test_noam_without_a_learning_rate_has_the_rates_of_the_paper_and_other_kinds_a_peak_of_a_thousandth():
    """A default of 0.001 as the factor trained at a thousandth of the paper's rate."""
    assert schedule(kind="noam", warmup_steps=100, d_model=64)(100) == pytest.approx(0.0125)
    for kind in set(KINDS) - {"noam"}:
        assert schedule(kind=kind, warmup_steps=100)(100) == pytest.approx(0.001)


def test_a_peak_given_as_the_factor_of_noam_is_warned_of_with_the_peak_that_it_gives():
    def warning(d_model=64, **given):
        settings = TrainingSettings(schedule=ScheduleSettings(warmup_steps=100, **given))
        return rate_warning(settings, d_model=d_model)

    found = warning(kind="noam", learning_rate=0.005)
    assert "the peak of the rate is 6.25e-05; the paper's, 0.0125" in found
    assert "--set training.schedule.learning_rate=1" in found
    for given in ({}, {"learning_rate": 0.05}, {"learning_rate": 2.0}):
        assert not warning(kind="noam", **given)
    assert not warning(kind="cosine", learning_rate=0.005)


def test_inverse_square_root_is_noam_with_another_peak():
    noam = schedule(kind="noam", learning_rate=1.0, warmup_steps=100)
    other = schedule(kind="inverse_square_root", learning_rate=noam(100), warmup_steps=100)
    assert all(math.isclose(noam(step), other(step)) for step in range(1, 1001))


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_cosine_and_linear_never_rise_after_the_warm_up_and_end_at_their_share(kind):
    rate = schedule(kind=kind, learning_rate=0.1, warmup_steps=10, final=0.1)
    rates = [rate(step) for step in range(10, 2000)]  # beyond the end too
    assert all(later <= earlier for earlier, later in itertools.pairwise(rates))
    assert math.isclose(rate(1000), 0.01)
    assert math.isclose(rate(1999), 0.01)


def test_cosine_and_linear_are_pytorchs():
    """After a warm-up of 10 updates their rate falls over the other 990."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    theirs = {
        "cosine": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=990, eta_min=0.01),
        "linear": torch.optim.lr_scheduler.LinearLR(
            optimizer, start_factor=1.0, end_factor=0.1, total_iters=990
        ),
    }
    for kind, expected in theirs.items():
        rate = schedule(kind=kind, learning_rate=0.1, warmup_steps=10, final=0.1)
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        for step in range(11, 1001):
            optimizer.step()
            expected.step()
            assert math.isclose(rate(step), expected.get_last_lr()[0], rel_tol=1e-9), (kind, step)


def test_a_run_that_only_warms_up_ends_at_the_peak_and_beyond_it_at_the_final_rate():
    rate = schedule(kind="linear", learning_rate=0.1, warmup_steps=1000, final=0.1)
    assert rate(1000) == 0.1
    assert math.isclose(rate(1001), 0.01)


def test_cooldown_falls_to_nothing_over_its_share_and_changes_nothing_before():
    plain = schedule(kind="constant", learning_rate=1.0, warmup_steps=1)
    cooled = schedule(kind="constant", learning_rate=1.0, warmup_steps=1, cooldown=0.3)
    assert all(plain(step) == cooled(step) for step in range(1, 701))
    assert all(math.isclose(cooled(1001 - left), left / 300) for left in range(1, 301)), "0 after the last"
    assert cooled(1001) == cooled(1500) == 0.0


def test_without_a_warm_up_in_the_recipe_it_takes_1000_updates():
    assert ScheduleSettings().warmup_of(50_000) == ScheduleSettings().warmup_of(10) == 1000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be above 0, not 0.0"),
        ({"warmup_steps": 0}, "warmup_steps must be 1 or more, not 0"),
        ({"warmup": 1.0}, r"warmup must lie in \[0, 1\), not 1.0"),
        ({"warmup": -0.1}, r"warmup must lie in \[0, 1\), not -0.1"),
        ({"cooldown": 1.1}, "cooldown must lie between 0 and 1, not 1.1"),
        ({"cooldown": -0.1}, "cooldown must lie between 0 and 1, not -0.1"),
        *(
            ({"final": value, "kind": kind}, f"final must lie between 0 and 1, not {value}")
            for value in (1.1, -0.1)
            for kind in ("cosine", "linear", "constant")
        ),
    ],
    ids=str,
)
def test_a_value_that_cannot_work_is_refused_by_name_and_with_the_reason(wrong, message):
    with pytest.raises(RecipeError, match=message) as refused:
        ScheduleSettings(**wrong)
    assert refused.value.hint


def test_the_hint_of_a_rate_is_a_rate_and_for_noam_the_factor_of_the_paper():
    for kind, hint in (("noam", "1 is the paper's factor"), ("cosine", "try 0.001")):
        with pytest.raises(RecipeError, match="learning_rate must be above 0") as refused:
            ScheduleSettings(kind=kind, learning_rate=0.0)
        assert refused.value.hint == hint


def test_types_are_those_of_a_recipe_and_a_schedule_is_a_function(registered, monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(RecipeError, match=r"max_steps must be an integer, not 2\.5"):
        schedule(max_steps=2.5)
    with pytest.raises(RecipeError, match="options must be numbers, texts and lists"):
        ScheduleSettings(kind="mine", options={"function": math.sin})
    with pytest.raises(UserError, match="the schedule 'mine'"):
        register_schedule("mine")(0.5)


@pytest.mark.parametrize("kind", ["noam", "inverse_square_root", "constant"])
def test_a_final_rate_is_refused_where_the_kind_has_none(kind):
    with pytest.raises(RecipeError, match=f"final = 0.1 has no effect with kind = '{kind}'"):
        ScheduleSettings(kind=kind, final=0.1)


def test_a_share_of_the_run_as_warm_up_grows_with_the_run():
    for steps in (200, 1000, 5000):
        rate = schedule(max_steps=steps, kind="inverse_square_root", learning_rate=0.5, warmup=0.1)
        assert max(range(1, steps + 1), key=rate) == steps // 10
    assert schedule(max_steps=5, kind="constant", learning_rate=0.5, warmup=0.0)(1) == 0.5


def test_two_lengths_of_the_warm_up_are_refused():
    with pytest.raises(RecipeError, match="warmup_steps = 10") as refused:
        ScheduleSettings(warmup=0.1, warmup_steps=10)
    assert "--set training.schedule.warmup_steps=null" in refused.value.hint
    with pytest.raises(RecipeError, match="warmup must lie"):
        ScheduleSettings(warmup=400.0)


def test_the_share_of_the_peak_that_is_reached_is_that_of_the_update_with_the_highest_rate():
    """Where warm-up and cooldown overlap, it is in their middle, or at an end of where they do."""
    for max_steps, warmup_steps in itertools.product((1, 2, 99, 100), (1, 30, 60, 100, 300)):
        for cooldown in (0.0, 0.3, 0.7, 1.0):
            settings = ScheduleSettings(
                kind="constant", learning_rate=1.0, warmup_steps=warmup_steps, cooldown=cooldown
            )
            rate = Schedule(settings=settings, max_steps=max_steps, d_model=1)
            highest = max(map(rate, range(1, max_steps + 1)))
            assert math.isclose(settings.share_reached(max_steps), highest), (max_steps, settings)


@pytest.mark.parametrize("max_steps", [1, 7, 100, 12_345])
def test_a_schedule_is_tried_for_updates_all_over_the_run(max_steps):
    steps = schedule(max_steps=max_steps).tried_steps()
    assert (steps[0], steps[-1]) == (1, max_steps)
    assert all(0 < later - step <= max_steps / 100 + 1 for step, later in itertools.pairwise(steps))


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(SCHEDULES, "added", {})


def test_a_registered_schedule_follows_the_warm_up_and_ends_with_the_cooldown(registered):
    calls = []

    @register_schedule("halves")
    def halves(step, warmup, max_steps):
        calls.append((step, warmup, max_steps))
        return 0.5 if step <= 55 else 0.25

    rate = schedule(kind="halves", max_steps=100, learning_rate=0.4, warmup_steps=10, cooldown=0.1)
    plain = schedule(kind="constant", max_steps=100, learning_rate=0.4, warmup_steps=10, cooldown=0.1)
    for step in range(1, 101):
        expected = 1.0 if step <= 10 else 0.5 if step <= 55 else 0.25
        assert math.isclose(rate(step), expected * plain(step))
    assert calls[-90:] == [(step, 10, 100) for step in range(11, 101)]
    assert min(calls) == (11, 10, 100)


WRONG = [-0.1, math.nan, math.inf, 1e300, 10**400, None, "0.5", True, torch.tensor(0.5)]


@pytest.mark.parametrize("factor", WRONG, ids=lambda factor: f"{factor!r}"[:20])
def test_a_registered_schedule_that_gives_no_factor_is_refused_before_training(registered, factor):
    register_schedule("wrong")(lambda step, warmup, max_steps: factor if step > 500 else 1.0)
    with pytest.raises(RecipeError, match=re.escape(f"'wrong' gives {factor!r} for update 510")):
        schedule(kind="wrong", warmup_steps=10)
    late = schedule(kind="wrong", warmup_steps=10, max_steps=500)
    with pytest.raises(RecipeError, match="for update 501"):
        late(501)


def test_a_registered_schedule_that_gives_rates_or_steps_for_factors_is_warned_of(registered):
    def warning(name, factor):
        register_schedule(name)(factor)
        settings = ScheduleSettings(kind=name, learning_rate=0.01, warmup_steps=1)
        return rate_warning(TrainingSettings(max_steps=100, schedule=settings), d_model=16)

    assert "factors of up to 100, so that the learning rate is up to 1:" in warning(
        "step", lambda step, *_: step
    )
    assert "of at most 0.001" in warning("rate", lambda *_: 0.001)
    assert not warning("half", lambda *_: 0.5)
    assert not warning("cycle", lambda step, *_: step / 10)
    assert not warning("fails", lambda *_: None), "which is an error"
    register_schedule("huge")(lambda step, *_: 1e6)
    with pytest.raises(RecipeError, match="'huge' gives 1000000"):
        schedule(kind="huge", warmup_steps=10)


def test_a_registered_schedule_under_which_most_updates_train_nothing_is_refused(registered):
    register_schedule("whole")(lambda step, warmup, max_steps: (max_steps - step) // max_steps)
    with pytest.raises(
        RecipeError, match="'whole' gives 0 for 99 of 99 updates that were tried, as for update 20"
    ):
        schedule(kind="whole", warmup_steps=10)
    register_schedule("half")(lambda step, warmup, max_steps: float(step <= max_steps // 2 + 1))
    schedule(kind="half", warmup_steps=2, max_steps=100)  # 49 of 98
    register_schedule("nothing")(lambda step, warmup, max_steps: 0)
    with pytest.raises(RecipeError, match="'nothing' gives 0 for 2 of 2 updates"):
        schedule(kind="nothing", warmup_steps=1, max_steps=3)
    register_schedule("linear_to_0")(lambda step, warmup, max_steps: (max_steps - step) / max_steps)
    schedule(kind="linear_to_0", warmup_steps=4, max_steps=5)


def test_a_registered_schedule_that_counts_its_calls_is_refused(registered):
    calls = itertools.count()
    register_schedule("counts")(lambda step, warmup, max_steps: 0.99 ** next(calls))
    with pytest.raises(RecipeError, match="'counts' gives two rates for update"):
        schedule(kind="counts", warmup_steps=10)


def test_the_options_of_a_recipe_are_arguments_of_the_schedule(registered):
    register_schedule("power")(lambda step, warmup, max_steps, power=1: (1 - step / max_steps) ** power)
    rate = schedule(kind="power", options={"power": 2}, learning_rate=1.0, warmup_steps=10)
    assert rate(500) == pytest.approx(0.25)
    with pytest.raises(RecipeError, match=r"schedule\.options: the schedule 'power': .*'powr'") as refused:
        schedule(kind="power", options={"powr": 2})
    assert "'power'" in refused.value.hint
    with pytest.raises(RecipeError, match="options have no effect with kind = 'cosine'"):
        ScheduleSettings(kind="cosine", options={"power": 2})


def test_a_registered_schedule_of_other_arguments_is_refused(registered):
    register_schedule("short")(lambda step: 1.0)
    with pytest.raises(RecipeError, match="'short': too many positional arguments"):
        schedule(kind="short")


def test_a_registered_schedule_that_fails_is_named(registered):
    register_schedule("divides")(lambda step, warmup, max_steps: 1 / (max_steps - step))
    with pytest.raises(RecipeError, match="'divides' fails for update 1000: ZeroDivisionError"):
        schedule(kind="divides", warmup_steps=10)


def test_numbers_of_numpy_are_factors(registered):
    register_schedule("numpy")(lambda step, warmup, max_steps: np.float32(0.5))
    assert schedule(kind="numpy", learning_rate=0.4, warmup_steps=10)(11) == 0.2


def test_an_unknown_schedule_and_a_name_of_regards_own_are_refused(registered):
    with pytest.raises(RecipeError, match="no schedule is registered as 'cosin'") as refused:
        schedule(kind="cosin")
    assert "'cosine'" in refused.value.hint
    with pytest.raises(UserError, match="'cosine' is one of regard's own"):
        register_schedule("cosine")
    with pytest.raises(RecipeError, match=r"final = 0\.1 has no effect with kind = 'halves'"):
        ScheduleSettings(kind="halves", final=0.1)


def test_there_is_no_update_before_the_first():
    with pytest.raises(UserError, match="there is no update 0"):
        schedule()(0)


def test_an_option_that_a_decorator_hides_is_refused_before_training(registered):
    def power(step, warmup, max_steps, *, power=1.0):
        return (warmup / step) ** power

    register_schedule("hidden")(lambda *given, **options: power(*given, **options))
    refuse_unknown_schedule("hidden", {"power": 2.0})
    with pytest.raises(RecipeError, match=r"schedule\.options: the schedule 'hidden': .*'powr'"):
        refuse_unknown_schedule("hidden", {"powr": 2.0})
