"""Every process holds the whole model: data parallelism (Goyal et al. 2017; DDP, Li et al. 2020)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.distributed.group import SINGLE, Group


class Replicated:
    """Gradients are summed over the processes before the step, so all take the same one.

    A single process is a group of one, to which all of this is nothing.
    """

    lockstep = False

    def __init__(self, model: nn.Module, group: Group = SINGLE) -> None:
        self.model, self.group = model, group

    def loss(self, objective: Callable[[Any, Any], Any], batch: Any) -> Any:
        return objective(self.model, batch)

    def sum_(self, gradients: Sequence[Tensor], sums: Tensor) -> None:
        self.group.sum_([*gradients, sums])

    def clip(self, limit: float) -> float:
        """The norm of the gradient, which is shortened to `limit` where it is longer."""
        return float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit or math.inf))

    def gathered(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors

    def spread(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors

    @contextmanager
    def whole(self) -> Iterator[nn.Module]:
        yield self.model
