"""Pace: how long the updates and validations of a run take, and so what is left of it."""

import time
from dataclasses import dataclass

from regard.training.settings import TrainingSettings
from regard.training.state import Timed


@dataclass(frozen=True, kw_only=True)
class TimeLeft:
    """Seconds to the end of a run; not `whole` where there are validations to come and none was timed."""

    seconds: float
    whole: bool


@dataclass(frozen=True, kw_only=True)
class Update:
    """What is known after an update, for a display."""

    step: int
    loss: float  # of its targets alone, in nats
    learning_rate: float
    targets: int
    seconds: float
    is_reported: bool  # whether a report of this step follows
    left: TimeLeft


class Pace:
    """Times the updates of this process; time spent on validations is taken out."""

    def __init__(self) -> None:
        self.updates = Timed()
        self._first = 0.0  # seconds of the first update, which is slower than the others
        self._started = 0.0

    def start(self) -> None:
        """An update, and what goes before it, begins."""
        self._started = time.perf_counter()

    def leave_out(self, seconds: float) -> None:
        """So much of the time since `start` was spent on a validation."""
        self._started += seconds

    def finish(self) -> float:
        """The update is done; the seconds that it took."""
        seconds = time.perf_counter() - self._started
        self._first = self._first or seconds
        self.updates.count += 1
        self.updates.seconds += seconds
        return seconds

    def left(self, step: int, settings: TrainingSettings, validations: Timed) -> TimeLeft:
        """What is left after update `step`; `validations` are those that were timed so far."""
        updates = self.updates
        if updates.count > 1:
            updates = Timed(count=updates.count - 1, seconds=updates.seconds - self._first)
        return time_left(step, settings, updates, validations)


def time_left(step: int, settings: TrainingSettings, updates: Timed, validations: Timed) -> TimeLeft:
    """What is left of a run after update `step`, by the mean times of updates and of validations."""
    to_come = validations_after(step, settings)
    seconds = updates.mean * max(settings.max_steps - step, 0) + validations.mean * to_come
    return TimeLeft(seconds=seconds, whole=validations.count > 0 or not to_come)


def validations_after(step: int, settings: TrainingSettings) -> int:
    """How many validations come after update `step`; the last is at the end of the run."""
    every, last = settings.validate_every, settings.max_steps
    return max(0, last // every - step // every + (last % every > 0)) if step < last else 0
