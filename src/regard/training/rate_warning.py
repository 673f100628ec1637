"""Warnings before training: of learning rates that stay far below their peak, or go far above it."""

from contextlib import suppress

from regard.counted import counted
from regard.errors import RecipeError
from regard.training.schedule import SCHEDULES, Schedule, ScheduleSettings, cooldown_updates
from regard.training.settings import TrainingSettings

REACHED = 0.9  # of the peak: with less the run is called too short for its warm-up
FITTING_WARMUP = 0.1  # of the run, as a hint
SMALL_FACTOR = 0.05  # of the paper's schedule: with less, a peak was probably meant (the paper has 1)
SMALL, LARGE = 0.01, 10.0  # factors of the rate that a registered schedule seldom means


def rate_warning(
    settings: TrainingSettings, change: str = "--set training.schedule.{}", *, d_model: int
) -> str:
    """A warning if a run ends, or cools down, before its learning rate is near its peak; else empty.

    Also if the factor of the paper's schedule looks like a learning rate, or if the factors of a registered
    one look like learning rates or like numbers of updates.

    `change`: how to change the setting that the warning puts into the braces. `d_model`: of the model.
    """
    schedule, steps = settings.schedule, settings.max_steps
    if schedule.kind == "noam" and schedule.given_or_default_rate < SMALL_FACTOR:
        return _small_factor(schedule, steps, change, d_model)
    reached = schedule.share_reached(steps)
    if reached > REACHED:
        return _odd_factors(schedule, steps)
    warmup, cooldown = schedule.warmup_of(steps), cooldown_updates(schedule, steps)
    rest = f" and the cooldown the last {cooldown:,}" if cooldown else ""
    fitting = max(1, round(FITTING_WARMUP * steps))
    instead = f"warmup={FITTING_WARMUP}" if schedule.warmup is not None else f"warmup_steps={fitting}"
    return (
        f"training.schedule: the warm-up takes {warmup:,} of {counted(steps, 'update')}{rest}, so"
        f" the learning rate reaches {100 * reached:.0f} % of its peak: {change.format(instead)}"
    )


def _small_factor(settings: ScheduleSettings, max_steps: int, change: str, d_model: int) -> str:
    """The warning of a factor of the paper's schedule that was meant as a rate."""
    of_paper = (d_model * settings.warmup_of(max_steps)) ** -0.5
    peak = settings.given_or_default_rate * of_paper
    return (
        f"training.schedule.learning_rate = {settings.learning_rate}: for kind = 'noam' it is a factor of"
        f" (d_model * warmup)^-0.5, so the peak of the rate is {peak:.3g}; the paper's, {of_paper:.3g}, is"
        f" that of {change.format('learning_rate=1')}"
    )


def _odd_factors(settings: ScheduleSettings, max_steps: int) -> str:
    """A warning of very small or large factors of a registered schedule; none where `Schedule` fails."""
    if SCHEDULES.get(settings.kind) is None:
        return ""
    peak = 0.0
    with suppress(RecipeError):
        schedule = Schedule(settings=settings, max_steps=max_steps, d_model=1)
        after = [step for step in schedule.tried_steps() if step > settings.warmup_of(max_steps)]
        peak = max(map(schedule, after), default=0.0)
    factor = peak / settings.given_or_default_rate
    if factor == 0 or SMALL <= factor <= LARGE:
        return ""
    most = "up to" if factor > LARGE else "at most"
    return (
        f"the schedule {settings.kind!r} gives factors of {most} {factor:.4g}, so that the learning rate is"
        f" {most} {peak:.4g}: return factors of learning_rate, 1 for the peak"
    )
