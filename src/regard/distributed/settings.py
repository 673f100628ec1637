"""The settings of a recipe's `[distributed]` section."""

from dataclasses import dataclass
from typing import Literal

from regard.recipe import check_types


@dataclass(frozen=True, kw_only=True)
class DistributedSettings:
    """How several processes share a model; without effect for a single process.

    "ddp": each process has the whole model (Li et al. 2020). "fsdp2": each process has a part of every
    weight, its gradient and its optimiser state (Zhao et al. 2023), for models too large for one process.
    Their results are equal up to the order of additions, and each can resume the other's checkpoints.
    """

    strategy: Literal["ddp", "fsdp2"] = "ddp"  # whole copies of the model ("ddp"), or parts of it ("fsdp2")

    def __post_init__(self) -> None:
        check_types(self)

    def is_sharded(self, processes: int) -> bool:
        """True if each of `processes` processes holds only a part of the model."""
        return self.strategy == "fsdp2" and processes > 1
