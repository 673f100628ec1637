"""A plain model in the first process, whose layers are gathered from all processes one at a time.

Validation and decoding call a model in ways that only the first process knows: how many steps a search takes
depends on its outputs. So the others do not run the model. They send the rows of each layer that the first
process asks for, and it drops them before it asks for the next. What is in no list of layers, such as
embeddings, stays until the end.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from regard.distributed.group import Group
from regard.distributed.row_range import RowRange

Result = TypeVar("Result")
END, REST = -1, 0  # numbers that the first process sends: the end, and all weights outside of layers


class GatheredModel:
    """Calls a function with a plain copy of a sharded model in the first process, which gathers its weights.

    Args:
        model: the model before it is sharded.
        layers: the modules that are gathered one at a time.
    """

    def __init__(
        self, model: nn.Module, layers: Sequence[nn.Module], group: Group, device: torch.device
    ) -> None:
        self._model, self._group = model, group
        names = {weight: name for name, weight in model.named_parameters()}
        in_layers = [[names[weight] for weight in layer.parameters()] for layer in layers]
        self._tied: dict[str, list[str]] = {}
        for name, weight in model.named_parameters(remove_duplicate=False):
            self._tied.setdefault(names[weight], []).append(name)
        layered = {name for layer in in_layers for name in layer}
        self._parts = [[name for name in names.values() if name not in layered], *in_layers]
        self._plain = _without_weights(model, device) if group.is_first else None
        self._present: int | None = None  # the layer that the plain model has
        if self._plain is not None:
            paths = {module: path for path, module in model.named_modules()}
            for number, layer in enumerate(layers, start=1):
                self._ask_when_called(self._plain.get_submodule(paths[layer]), number)

    def call(self, function: Callable[[nn.Module], Result]) -> Result | None:
        """`function(model)` in the first process; None in the others. All processes call this together."""
        if self._plain is None:
            while (number := self._group.maximum(END)) != END:
                for name in self._parts[number]:
                    self._whole(name)
            return None
        self._receive(REST)
        self._copy_statistics(self._plain)
        result = function(self._plain)  # where it fails, this process ends, and the others with it
        self._group.maximum(END)
        self._drop_layer()
        self._drop(REST)
        return result

    def _ask_when_called(self, layer: nn.Module, number: int) -> None:
        """Asks for a layer when a module of it is called, whichever method of the layer calls it."""

        def ask(module: nn.Module, inputs: Any) -> None:
            if self._present != number:
                self._drop_layer()
                self._receive(number)
                self._present = number

        for module in layer.modules():
            if any(True for _ in module.parameters()):  # layers may share a module without weights
                module.register_forward_pre_hook(ask)

    def _receive(self, number: int) -> None:
        self._group.maximum(number)
        for name in self._parts[number]:
            self._set(name, self._whole(name))

    def _drop_layer(self) -> None:
        if self._present is not None:
            self._drop(self._present)
            self._present = None

    def _drop(self, number: int) -> None:
        for name in self._parts[number]:
            self._set(name, None)

    def _set(self, name: str, whole: Tensor | None) -> None:
        """Gives the plain model a weight, under all names of a tied one; None: one without memory."""
        assert self._plain is not None
        if whole is None:
            whole = torch.empty(self._model.get_parameter(name).shape, device="meta")
        weight = nn.Parameter(whole, requires_grad=False)
        for each in self._tied[name]:
            module, _, leaf = each.rpartition(".")
            self._plain.get_submodule(module)._parameters[leaf] = weight

    def _copy_statistics(self, plain: nn.Module) -> None:
        """Copies the first process's own statistics, such as those of a batch norm."""
        own = self._model.state_dict()
        for name, buffer in plain.named_buffers():
            if name in own:
                buffer.copy_(own[name])

    @torch.no_grad()
    def _whole(self, name: str) -> Tensor | None:
        """A weight from the rows of all processes, in the first process; None in the others."""
        weight = self._model.get_parameter(name)
        if not isinstance(weight, DTensor):
            return weight.detach().clone() if self._group.is_first else None
        own, rows = weight.to_local(), RowRange.of(weight.shape, self._group)
        padded = own if len(own) == rows.most else own.new_zeros(rows.most, *own.shape[1:])
        if padded is not own:
            padded[: len(own)] = own
        received = None
        if self._group.is_first:
            received = [torch.empty_like(padded) for _ in range(self._group.size)]
        dist.gather(padded.contiguous(), received, group=self._group.process_group, group_dst=0)
        return torch.cat(received)[: weight.size(0)] if received is not None else None


def _without_weights(model: nn.Module, device: torch.device) -> nn.Module:
    """A copy of the model on `device` whose weights have no memory."""
    empty = {
        id(weight): nn.Parameter(torch.empty_like(weight, device="meta"), requires_grad=False)
        for weight in model.parameters()
    }
    plain = copy.deepcopy(model, empty)
    for module in plain.modules():
        for name, buffer in module._buffers.items():
            module._buffers[name] = buffer if buffer is None else buffer.to(device)
    return plain
