"""Data parallelism: every process has the whole model (Goyal et al. 2017; DDP, Li et al. 2020)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.distributed.group import SINGLE, Group


class ReplicatedModel:
    """A replica of the model in each process; gradients are summed over the processes before the step.

    For a single process, a group of one, it does nothing.
    """

    lockstep = False

    def __init__(self, model: nn.Module, group: Group = SINGLE) -> None:
        self.model, self.group = model, group

    def loss(self, objective: Callable[[Any, Any], Any], batch: Any) -> Any:
        return objective(self.model, batch)

    def sum_(self, gradients: Sequence[Tensor], sums: Tensor) -> None:
        self.group.sum_([*gradients, sums])

    def clip(self, limit: float) -> Tensor:
        """Clips the gradient to the norm `limit` (0: no clipping); returns the norm before clipping."""
        return torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit or math.inf)

    def gather(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors

    def shard(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors

    @contextmanager
    def full_model(self) -> Iterator[nn.Module]:
        yield self.model
