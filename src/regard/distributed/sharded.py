"""Every process holds a part of each weight: FSDP (Zhao et al. 2023), PyTorch's `fully_shard`.

A weight of n rows is cut into rows; a process gathers the whole of a block's weights just before the block
works and lets them go afterwards, gradients are summed to where their rows belong, and the optimiser and a
moving average work on rows. The model is told nothing of it.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.distributed.group import Group

BLOCKS = "blocks"  # what the models call the list of their layers


class Sharded:
    """Puts `model` on the processes of `group`, each with rows of every weight: these are DTensors then."""

    lockstep = True

    def __init__(self, model: nn.Module, group: Group) -> None:
        self.model, self.group = model, group
        # what is validated and saved; there from the start, so that a lack of memory shows at the start
        self._plain = copy.deepcopy(model) if group.is_first else None
        self._mesh = DeviceMesh.from_group(group.channel, next(model.parameters()).device.type)
        self._pass = _Pass(model)
        for part in (*_blocks(model), self._pass):
            sharded = fully_shard(part, mesh=self._mesh)
            assert isinstance(sharded, FSDPModule)
            sharded.set_gradient_divide_factor(1.0)  # a sum; the trainer divides by all target tokens
            sharded.set_force_sum_reduction_for_comms(True)

    def loss(self, objective: Callable[[Any, Any], Any], batch: Any) -> Any:
        """`objective(model, batch)`, within which the weights are whole."""
        return self._pass(objective, batch)[1]

    def sum_(self, gradients: Sequence[Tensor], sums: Tensor) -> None:
        """`sums` alone: the backward pass has summed the gradients."""
        self.group.sum_([sums])

    def clip(self, limit: float) -> float:
        """The norm of the whole gradient, of which each process shortens its rows."""
        weights = list(self.model.parameters())
        norm = torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
        norm = _whole(norm)
        if limit:
            torch.nn.utils.clip_grads_with_norm_(weights, limit, norm)
        return float(norm)

    def gathered(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Whole tensors in the first process, nothing elsewhere; all have to ask at once."""
        found = {}
        for name, tensor in tensors.items():
            whole = _whole(tensor)
            if self.group.is_first:
                found[name] = whole.cpu()
        return found

    def spread(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Whole tensors, named by weight or `weight/slot`, as this process holds such: its rows."""
        own = self.model.state_dict()
        return {
            name: self._rows(own.get(name, own.get(name.rpartition("/")[0])), tensor)
            for name, tensor in tensors.items()
        }

    def _rows(self, weight: Tensor | None, tensor: Tensor) -> Tensor:
        if not isinstance(weight, DTensor) or weight.shape != tensor.shape:
            return tensor
        # src_data_rank: every process has read the whole, so nothing need be sent
        return distribute_tensor(tensor.to(weight.device), self._mesh, weight.placements, src_data_rank=None)

    @contextmanager
    def whole(self) -> Iterator[nn.Module]:
        """A plain model with all the weights in the first process, the rows elsewhere; all ask at once."""
        weights = self.gathered(self.model.state_dict())
        if self._plain is None:
            yield self.model
            return
        with torch.no_grad():
            for name, tensor in self._plain.state_dict().items():
                tensor.copy_(weights[name])
        yield self._plain


class _Pass(nn.Module):
    """A forward pass and its loss as one module: an objective calls what it likes of the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, objective: Callable[[Any, Any], Any], batch: Any) -> tuple[Tensor, Any]:
        loss = objective(self.model, batch)
        return loss.total, loss  # as a tensor by itself, or FSDP would not see where to begin backwards


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The layers that are gathered one by one; a layer that shares a weight with others is not among them."""
    blocks = [
        block
        for name, stack in model.named_modules()
        if name.rpartition(".")[2] == BLOCKS and isinstance(stack, nn.ModuleList)
        for block in stack
    ]
    holders: dict[Tensor, int] = {}
    for module in model.modules():
        for weight in module._parameters.values():
            if weight is not None:
                holders[weight] = holders.get(weight, 0) + 1
    return [block for block in blocks if all(holders[weight] == 1 for weight in block.parameters())]


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
