"""The interface of a model that is distributed over processes, and its construction."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from regard.distributed.group import Group
from regard.distributed.replicated import ReplicatedModel
from regard.distributed.settings import DistributedSettings


@runtime_checkable
class DistributedModel(Protocol):
    """A model on the processes of a group. All processes call the same methods in the same order."""

    model: nn.Module
    group: Group
    lockstep: bool  # True if a forward or backward pass communicates, so that all must run it at once

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

    def gather(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The full tensors, joined from the parts of all processes; valid in the first process."""
        ...

    def shard(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """This process's parts of full tensors, named after weights or `weight/slot` of the optimiser."""
        ...

    def full_model(self) -> AbstractContextManager[nn.Module]:
        """A context with a plain model that has the present weights; valid in the first process."""
        ...


def distribute(model: nn.Module, settings: DistributedSettings, group: Group) -> DistributedModel:
    """Distributes `model` over the processes of `group`."""
    if settings.strategy == "fsdp2" and group.size > 1:
        from regard.distributed.sharded import ShardedModel  # here, because its import takes a second

        return ShardedModel(model, group)
    return ReplicatedModel(model, group)
