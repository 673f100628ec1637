"""Data parallelism: every process has the whole model (Goyal et al. 2017; DDP, Li et al. 2020)."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.distributed.group import SINGLE, Group
from regard.distributed.readable_tensors import ReadableTensors

Result = TypeVar("Result")


class ReplicatedModel:
    """A whole copy of the model in each process; their gradients are summed before each update.

    `DistributedModel` describes the methods. In a group of one process nothing is communicated.
    """

    is_sharded = False

    def __init__(self, model: nn.Module, group: Group = SINGLE) -> None:
        self.model, self.group = model, group

    def loss(self, objective: Callable[[Any, Any], Any], batch: Any) -> Any:
        return objective(self.model, batch)

    def sum_(self, gradients: Sequence[Tensor], sums: Tensor) -> None:
        self.group.sum_([*gradients, sums])

    def clip(self, limit: float) -> Tensor:
        """Clips the gradient to the norm `limit` (0: no clipping); returns the norm before clipping."""
        return torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit or math.inf)

    def part(self, tensor: Tensor) -> tuple[Tensor, int] | None:
        return (tensor, 0) if self.group.is_first else None

    def load(self, saved: ReadableTensors) -> Mapping[str, Tensor]:
        return {name: saved.read(name) for name in saved.shapes}

    def on_first(self, function: Callable[[nn.Module], Result]) -> Result | None:
        return function(self.model) if self.group.is_first else None
