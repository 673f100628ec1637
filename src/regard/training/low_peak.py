"""A run too short for its warm-up, or whose cooldown begins before its learning rate is at the peak."""

from regard.counted import counted
from regard.training.schedule import cooldown_updates
from regard.training.settings import TrainingSettings

REACHED = 0.9  # of the peak: with less the run is called too short for its warm-up
FITTING_WARMUP = 0.1  # of the run, as a hint


def low_peak(settings: TrainingSettings, change: str = "--set training.schedule.{}") -> str:
    """A warning if a run ends, or cools down, before its learning rate is near its peak; else empty.

    `change`: how to change the setting that the warning puts into the braces.
    """
    schedule, steps = settings.schedule, settings.max_steps
    reached = schedule.share_reached(steps)
    if reached > REACHED:
        return ""
    warmup, cooldown = schedule.warmup_of(steps), cooldown_updates(schedule, steps)
    rest = f" and the cooldown the last {cooldown:,}" if cooldown else ""
    fitting = max(1, round(FITTING_WARMUP * steps))
    instead = f"warmup={FITTING_WARMUP}" if schedule.warmup is not None else f"warmup_steps={fitting}"
    return (
        f"training.schedule: the warm-up takes {warmup:,} of {counted(steps, 'update')}{rest}, so"
        f" the learning rate reaches {100 * reached:.0f} % of its peak: {change.format(instead)}"
    )
