"""The training time, cores and device that a proposed run may use."""

import math
from dataclasses import dataclass

import torch

from regard.errors import RecipeError
from regard.verbs.shared.device import choose_device
from regard.verbs.shared.limits import LIMITS

DEFAULT_MINUTES = 60.0
TIMED_TASKS = "translation", "images"  # whose speed on this machine is measured


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The time and hardware of a run. `cores` is None for all; then a GPU is used if there is one."""

    minutes: float
    cores: int | None
    device: torch.device
    has_minutes: bool  # True if the user set the time

    @classmethod
    def of(cls, minutes: float | None, cores: int | None, task: str) -> "Budget":
        """The budget for `minutes` and `cores`, as far as they are set.

        Raises:
            RecipeError: the time is not above 0, or the task has no measured speed.
            UserError: the machine has fewer cores.
        """
        if task not in TIMED_TASKS and (minutes is not None or cores is not None):
            raise RecipeError(
                f"minutes and cores are for translations and images, and the task of these files is {task}",
                "leave them out; training.max_steps of the recipe sets the length of the run",
            )
        if minutes is not None and not (0 < minutes < math.inf):
            raise RecipeError(f"minutes must be above 0, not {minutes}", "60 is an hour")
        if cores is not None:
            LIMITS["cores"].refuse("cores", cores)
        device = torch.device("cpu") if cores is not None else choose_device()
        return cls(
            minutes=DEFAULT_MINUTES if minutes is None else float(minutes),
            cores=cores,
            device=device,
            has_minutes=minutes is not None,
        )
