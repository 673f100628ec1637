"""The time and the cores that a proposal may use."""

import math
from dataclasses import dataclass

import torch

from regard.errors import RecipeError
from regard.verbs.device import choose_device
from regard.verbs.limits import LIMITS

MINUTES = 60.0  # where nobody says how long


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a run may take. `cores` is None for all of this machine; a GPU is used where there is one."""

    minutes: float
    cores: int | None
    device: torch.device

    @classmethod
    def of(cls, minutes: float | None, cores: int | None, task: str) -> "Budget":
        """The budget that was asked for.

        Raises:
            RecipeError: there is no such time, or the task is none that is measured. UserError: there are
                not as many cores.
        """
        if task != "translation" and (minutes is not None or cores is not None):
            raise RecipeError(
                f"a {task} recipe is not made for a time: only translations are measured on this machine",
                "leave out minutes and cores; training.max_steps of the recipe is how long it trains",
            )
        if minutes is not None and not (0 < minutes < math.inf):
            raise RecipeError(f"minutes must be above 0, not {minutes}", "60 is an hour")
        if cores is not None:
            LIMITS["cores"].refuse("cores", cores)
        device = torch.device("cpu") if cores is not None else choose_device()
        return cls(minutes=MINUTES if minutes is None else float(minutes), cores=cores, device=device)
