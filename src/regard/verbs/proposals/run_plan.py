"""The run that `regard new` proposes for a translation: settings, and updates that fit a time."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TypeVar

from regard.verbs.proposals.training_speed import Speed

RESERVED = 0.1  # share of the time for tokenising, validation and the test score
VALIDATIONS = 10  # in a run
MIN_STEPS = 100  # updates, even if the time is too short for them
CLIP_NORM = 1.0  # maximum norm of the gradient
MAX_TOKENS = 256  # of a side of a pair


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The training settings of a model."""

    batch_tokens: int
    learning_rate: float
    warmup: float  # share of the updates
    epochs: int  # at most; more did not help


@dataclass(frozen=True, kw_only=True)
class RunPlan(ABC):
    """A run for a corpus and a time; `warnings`: about the corpus and the model, a line each."""

    max_steps: int = 1000  # updates
    minutes: float = 0.0  # the expected time of the run; 0: unknown
    epochs: float = 0.0  # of `max_steps`; 0: unknown
    threads: int | None = None  # CPU threads of that time; None: unknown
    max_tokens: int = MAX_TOKENS  # of a side; longer pairs are left out
    warnings: tuple[str, ...] = ()

    @property
    @abstractmethod
    def settings(self) -> RunSettings:
        """The training settings."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """The number of parameters of the model."""

    @property
    def validate_every(self) -> int:
        """The updates between two validations."""
        return max(1, self.max_steps // VALIDATIONS)

    @property
    def moving_average(self) -> float:
        """The decay of a moving average over about 2 % of the run, but over 10 to 1,000 updates."""
        return round(min(0.999, max(0.9, 1 - 50 / self.max_steps)), 4)


Plan = TypeVar("Plan", bound=RunPlan)


def fitted_to_time(draft: Plan, speed: Speed, pairs: int, minutes: float) -> Plan:
    """`draft` with the updates that fit into `minutes`: `MIN_STEPS` or more, at most its epochs."""
    updates_per_epoch = pairs * speed.target_tokens_per_pair / speed.target_tokens_per_update
    seconds_per_update = speed.target_tokens_per_update / speed.target_tokens_per_second
    affordable = 60 * minutes * (1 - RESERVED) / seconds_per_update
    steps = _rounded_down(max(float(MIN_STEPS), min(affordable, draft.settings.epochs * updates_per_epoch)))
    seconds = steps * seconds_per_update / (1 - RESERVED)
    return replace(
        draft, max_steps=steps, minutes=seconds / 60, epochs=steps / updates_per_epoch, threads=speed.threads
    )


def _rounded_down(value: float) -> int:
    """`value` rounded down to two significant digits: 12,345 -> 12,000."""
    unit = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return int(value // unit * unit)
