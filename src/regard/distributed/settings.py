"""What a recipe's `[distributed]` section may say."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class DistributedSettings:
    """How several processes share a model; one process alone does not mind.

    "ddp": each holds all of it (Li et al. 2020). "fsdp2": each holds a part of every weight, of its gradient
    and of its optimiser's state (Zhao et al. 2023), for models that are too big for one. Both learn the
    same, up to the order of additions, and go on from each other's checkpoints.
    """

    strategy: Literal["ddp", "fsdp2"] = "ddp"
