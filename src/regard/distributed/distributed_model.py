"""How several processes hold one model: what a trainer asks of any way to do it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from regard.distributed.group import Group
from regard.distributed.replicated import Replicated
from regard.distributed.settings import DistributedSettings


@runtime_checkable
class DistributedModel(Protocol):
    """A model on the processes of a group, put there from outside. All processes call all of it, in order."""

    model: nn.Module
    group: Group
    lockstep: bool  # whether no process can go through a pass without the others

    def loss(self, objective: Callable[[Any, Any], Any], batch: Any) -> Any:
        """What `objective` says of the model and this process's batch."""
        ...

    def sum_(self, gradients: Sequence[Tensor], sums: Tensor) -> None:
        """After the backward passes: the gradients and `sums` become those of all processes, in place."""
        ...

    def clip(self, limit: float) -> float:
        """The norm of the gradient, which is shortened to `limit` where it is longer; 0 shortens nothing."""
        ...

    def gathered(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Of tensors as the processes hold them, the whole; in the first process."""
        ...

    def spread(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Of whole tensors, what this process holds."""
        ...

    def whole(self) -> AbstractContextManager[nn.Module]:
        """A plain model with the weights of now; in the first process."""
        ...


def distribute(model: nn.Module, settings: DistributedSettings, group: Group) -> DistributedModel:
    """Put `model` on the processes of `group`; from then on it is trained by what this gives."""
    if settings.strategy == "fsdp2" and group.size > 1:
        from regard.distributed.sharded import Sharded  # takes a second to import

        return Sharded(model, group)
    return Replicated(model, group)
