"""Fully sharded data parallelism: every process has some rows of each weight (FSDP, Zhao et al. 2023).

It uses PyTorch's `fully_shard`: all rows of a block's weights are gathered just before the block is computed
and freed afterwards, gradients are reduced to the rows of each process, and optimiser and moving average work
on rows. The model does not know of it. No process has a whole copy of it, neither to save nor to validate it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from regard.distributed.gathered_model import GatheredModel
from regard.distributed.group import Group
from regard.distributed.readable_tensors import ReadableTensors
from regard.distributed.row_range import RowRange
from regard.errors import ConfigError

Result = TypeVar("Result")
BLOCKS = "blocks"  # the name of the list of layers in the models


class ShardedModel:
    """Shards `model` over the processes of `group`, on `device`; its weights become DTensors.

    The layers are moved to the device one by one, so that it never has the whole model.

    Raises:
        ConfigError: a parameter is a scalar, which has no rows.
    """

    is_sharded = True

    def __init__(self, model: nn.Module, group: Group, device: torch.device | None = None) -> None:
        _refuse_scalars(model)
        self.model, self.group = model, group
        self._device = device or next(model.parameters()).device
        self._mesh = DeviceMesh.from_group(group.process_group, self._device.type)
        blocks = _blocks(model)
        self._gathered = GatheredModel(model, blocks, group, self._device)
        self._pass = _Pass(model)
        for part in (*blocks, self._pass):
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

    def part(self, tensor: Tensor) -> tuple[Tensor, int] | None:
        """The rows of a tensor that this process saves, and the first's number; None if there are none."""
        if not isinstance(tensor, DTensor):
            return (tensor, 0) if self.group.is_first else None
        own, rows = tensor.to_local(), RowRange.of(tensor.shape, self.group)
        assert len(own) == rows.last - rows.first, (own.shape, rows)
        return (own, rows.first) if len(own) or self.group.is_first else None

    def load(self, saved: ReadableTensors) -> Mapping[str, Tensor]:
        """Saved tensors, named `weight` or `weight/slot`; of those that are sharded, this process's rows."""
        own = self.model.state_dict()
        return {
            name: self._load(own.get(name, own.get(name.rpartition("/")[0])), name, saved)
            for name in saved.shapes
        }

    def _load(self, weight: Tensor | None, name: str, saved: ReadableTensors) -> Tensor:
        shape = saved.shapes[name]
        if not isinstance(weight, DTensor) or tuple(weight.shape) != shape:
            return saved.read(name)
        rows = RowRange.of(shape, self.group)
        own = saved.read_rows(name, rows.first, rows.last).to(self._device)
        return DTensor.from_local(
            own,
            self._mesh,
            weight.placements,
            run_check=False,
            shape=weight.shape,
            stride=weight.stride(),
        )

    def on_first(self, function: Callable[[nn.Module], Result]) -> Result | None:
        """`function(model)` in the first process, which gathers layer by layer; None in others."""
        return self._gathered.call(function)


class _Pass(nn.Module):
    """A forward pass and its loss as one module, because objectives call several methods of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, objective: Callable[[Any, Any], Any], batch: Any) -> tuple[Tensor, Any]:
        loss = objective(self.model, batch)
        return loss.total, loss  # FSDP needs the tensor itself to hook the backward pass


def _refuse_scalars(model: nn.Module) -> None:
    """Raise a ConfigError for parameters without rows, which `fully_shard` cannot divide."""
    if names := [name for name, weight in model.named_parameters() if weight.ndim == 0]:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise ConfigError(
            f"distributed.strategy = 'fsdp2' shards rows, and these parameters are scalars:"
            f" {', '.join(names[:3])}{more}",
            "make each of one element, as torch.ones(1) is; or take distributed.strategy = 'ddp'",
        )


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
