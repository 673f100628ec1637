"""Fully sharded data parallelism: every process has some rows of each weight (FSDP, Zhao et al. 2023).

It uses PyTorch's `fully_shard`: all rows of a block's weights are gathered just before the block is computed
and freed afterwards, gradients are reduced to the rows of each process, and optimiser and moving average work
on rows. The model does not know of it.
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

BLOCKS = "blocks"  # the name of the list of layers in the models


class ShardedModel:
    """Shards `model` over the processes of `group`; its weights become DTensors."""

    lockstep = True

    def __init__(self, model: nn.Module, group: Group) -> None:
        self.model, self.group = model, group
        # the model that is validated and saved; allocated now, so that a lack of memory shows at the start
        self._plain = copy.deepcopy(model) if group.is_first else None
        self._mesh = DeviceMesh.from_group(group.channel, next(model.parameters()).device.type)
        self._pass = _Pass(model)
        for part in (*_blocks(model), self._pass):
            sharded = fully_shard(part, mesh=self._mesh)
            assert isinstance(sharded, FSDPModule)
            sharded.set_gradient_divide_factor(1.0)  # a sum; the trainer divides by all target tokens
            sharded.set_force_sum_reduction_for_comms(True)

    def loss(self, objective: Callable[[Any, Any], Any], batch: Any) -> Any:
        """`objective(model, batch)` with gathered weights."""
        return self._pass(objective, batch)[1]

    def sum_(self, gradients: Sequence[Tensor], sums: Tensor) -> None:
        """Sums `sums` only: the backward pass has reduced the gradients already."""
        self.group.sum_([sums])

    def clip(self, limit: float) -> Tensor:
        """Clips the gradient to the norm `limit` (0: no clipping); returns the norm before clipping."""
        weights = list(self.model.parameters())
        norm = torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
        norm = _full_tensor(norm)
        if limit:
            torch.nn.utils.clip_grads_with_norm_(weights, limit, norm)
        return norm

    def gather(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The full tensors in the first process, an empty dict in the others."""
        found = {}
        for name, tensor in tensors.items():
            full = _full_tensor(tensor)
            if self.group.is_first:
                found[name] = full.cpu()
        return found

    def shard(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """This process's rows of full tensors, which are named `weight` or `weight/slot`."""
        own = self.model.state_dict()
        return {
            name: self._rows(own.get(name, own.get(name.rpartition("/")[0])), tensor)
            for name, tensor in tensors.items()
        }

    def _rows(self, weight: Tensor | None, tensor: Tensor) -> Tensor:
        if not isinstance(weight, DTensor) or weight.shape != tensor.shape:
            return tensor
        # src_data_rank=None: every process has the full tensor, so nothing is sent
        return distribute_tensor(tensor.to(weight.device), self._mesh, weight.placements, src_data_rank=None)

    @contextmanager
    def full_model(self) -> Iterator[nn.Module]:
        """A context with a plain model in the first process, and the sharded model in the others."""
        weights = self.gather(self.model.state_dict())
        if self._plain is None:
            yield self.model
            return
        with torch.no_grad():
            for name, tensor in self._plain.state_dict().items():
                tensor.copy_(weights[name])
        yield self._plain


class _Pass(nn.Module):
    """A forward pass and its loss as one module, because objectives call several methods of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, objective: Callable[[Any, Any], Any], batch: Any) -> tuple[Tensor, Any]:
        loss = objective(self.model, batch)
        return loss.total, loss  # FSDP needs the tensor itself to hook the backward pass


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The layers that are gathered one by one, without layers that share a weight with others."""
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


def _full_tensor(tensor: Tensor) -> Tensor:
    """The full tensor of a DTensor."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
