"""The interface of a model that is distributed over processes, and its construction."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from regard.distributed.group import Group
from regard.distributed.readable_tensors import ReadableTensors
from regard.distributed.replicated import ReplicatedModel
from regard.distributed.settings import DistributedSettings

Result = TypeVar("Result")


@runtime_checkable
class DistributedModel(Protocol):
    """A model on the processes of a group. All processes call the same methods in the same order."""

    model: nn.Module
    group: Group
    # True if each process has a part of the model. A pass then communicates, so that all must run it at once.
    is_sharded: bool

    def loss(self, objective: Callable[[Any, Any], Any], batch: Any) -> Any:
        """`objective(model, batch)` for this process's batch."""
        ...

    def sum_(self, gradients: Sequence[Tensor], sums: Tensor) -> None:
        """Sums the model's gradients and `sums` over all processes, in place, after the backward passes.

        A strategy whose backward pass already sums gradients leaves them as they are.
        """
        ...

    def clip(self, limit: float) -> Tensor:
        """Clips the gradient to the norm `limit` (0: no clipping); returns the norm before clipping."""
        ...

    def part(self, tensor: Tensor) -> tuple[Tensor, int] | None:
        """The rows of a tensor that this process saves, and the number of the first; None if it saves none.

        A tensor that is not sharded is saved by the first process.
        """
        ...

    def load(self, saved: ReadableTensors) -> Mapping[str, Tensor]:
        """Saved tensors, named after weights or `weight/slot` of the optimiser.

        If the model is sharded, this process reads its rows alone.
        """
        ...

    def on_first(self, function: Callable[[nn.Module], Result]) -> Result | None:
        """`function(model)` in the first process, whose model has the present weights; None in others."""
        ...


def distribute(
    model: nn.Module, settings: DistributedSettings, group: Group, device: torch.device | None = None
) -> DistributedModel:
    """Distributes `model` over the processes of `group`.

    `device`: where the parts of a sharded model go; None is the device of the model.
    """
    if settings.is_sharded(group.size):
        from regard.distributed.sharded import ShardedModel  # here, because its import takes a second

        return ShardedModel(model, group, device)
    return ReplicatedModel(model, group)
