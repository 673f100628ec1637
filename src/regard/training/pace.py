"""Timing of updates and validations, and the remaining time of a run."""

import time
from dataclasses import dataclass

from regard.training.settings import TrainingSettings
from regard.training.state import TimedCount


@dataclass(frozen=True, kw_only=True)
class TimeLeft:
    """The estimated time to the end of a run."""

    seconds: float
    whole: bool  # False: without the validations to come, because none was timed yet


@dataclass(frozen=True, kw_only=True)
class Update:
    """The facts about an update, for a progress display."""

    step: int
    loss: float  # of this update, in nats
    learning_rate: float
    targets: int
    seconds: float
    is_reported: bool  # True if a report of this step follows
    left: TimeLeft


class Pace:
    """Times the updates of this process, without the time for validations."""

    def __init__(self) -> None:
        self.updates = TimedCount()
        self._first = 0.0  # seconds of the first update, which is slower than the others
        self._started = 0.0

    def start(self) -> None:
        """Starts the timing of an update."""
        self._started = time.perf_counter()

    def exclude(self, seconds: float) -> None:
        """Excludes seconds since `start` that were spent on a validation."""
        self._started += seconds

    def finish(self) -> float:
        """Ends the timing of an update; returns its seconds."""
        seconds = time.perf_counter() - self._started
        self._first = self._first or seconds
        self.updates.count += 1
        self.updates.seconds += seconds
        return seconds

    def left(self, step: int, settings: TrainingSettings, validations: TimedCount) -> TimeLeft:
        """The remaining time after update `step`; `validations` are those that were timed so far."""
        updates = self.updates
        if updates.count > 1:
            updates = TimedCount(count=updates.count - 1, seconds=updates.seconds - self._first)
        return time_left(step, settings, updates, validations)


def time_left(
    step: int, settings: TrainingSettings, updates: TimedCount, validations: TimedCount
) -> TimeLeft:
    """The remaining time of a run after update `step`, from the mean times of updates and validations."""
    to_come = validations_after(step, settings)
    seconds = updates.mean * max(settings.max_steps - step, 0) + validations.mean * to_come
    return TimeLeft(seconds=seconds, whole=validations.count > 0 or not to_come)


def validations_after(step: int, settings: TrainingSettings) -> int:
    """The number of validations after update `step`; the last is at the end of the run."""
    every, last = settings.validate_every, settings.max_steps
    return last // every - step // every + (last % every > 0) if step < last else 0
