"""A model as the tree of its real modules: parameters, shapes, operations and memory at one input.

FLOPs are those of matrix products and convolutions, a multiply and an add each (2 m n k), counted as they
happen with attention in its plain form: all of Q K^T counts, what a mask hides too. Norms, softmax,
activations and look-ups are left out, as is usual (Kaplan et al. 2020). PyTorch's own counter
(torch.utils.flop_counter) says the same, but brings its compiler with it: 6 s until it counts.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

from regard.inspection.passes import ForcedPass, places
from regard.layers.attention import MultiHeadAttention
from regard.layers.scaled_dot_product import plain_attention
from regard.models.encoder_only import EncoderOnly
from regard.models.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class Part:
    """A module and those in it, whose parameters and FLOPs are counted in its own."""

    name: str  # "decoder.blocks.2.cross_attention"; of the model itself ""
    type: str
    parameters: int  # numbers learned; what is tied counts where it comes first
    tied: int  # numbers that stand at an earlier place too and count there
    flops: int  # in this pass
    output: tuple[int, ...] | None  # the shape of what it gave last; None: it was not called
    children: tuple["Part", ...]


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The whole model, at this input."""

    parameters: int
    flops: int  # of the forced pass: all positions at once
    cache_bytes: int  # what decoding keeps between steps when it has read all this: keys and values, states
    activation_bytes: int  # what training keeps of this example for the way back, parameters not counted


@dataclass(frozen=True, kw_only=True)
class Architecture:
    tree: Part
    totals: Totals


def architecture(forced: ForcedPass) -> Architecture:
    """The tree of the model, as one pass goes through it."""
    counted = _counted(forced)
    tree = _part(forced.model, "", counted, set())
    totals = Totals(
        parameters=tree.parameters,
        flops=tree.flops,
        cache_bytes=cache_bytes(forced),
        activation_bytes=activation_bytes(forced),
    )
    return Architecture(tree=tree, totals=totals)


@dataclass(frozen=True)
class _Counted:
    flops: Counter[str]  # of a module itself, without those in it
    shapes: dict[str, tuple[int, ...]]


def _part(module: nn.Module, name: str, counted: _Counted, seen: set[int]) -> Part:
    """`seen`: parameters that have been counted."""
    own = list(module.parameters(recurse=False))
    new = [each for each in own if id(each) not in seen]
    seen.update(map(id, own))
    size, all_of_it = sum(each.numel() for each in new), sum(each.numel() for each in own)
    children = tuple(
        _part(child, f"{name}.{last}" if name else last, counted, seen)
        for last, child in module.named_children()
    )
    return Part(
        name=name,
        type=type(module).__name__,
        parameters=size + sum(child.parameters for child in children),
        tied=all_of_it - size + sum(child.tied for child in children),
        flops=counted.flops[name] + sum(child.flops for child in children),
        output=counted.shapes.get(name),
        children=children,
    )


def _counted(forced: ForcedPass) -> _Counted:
    """The products that happen while a module is the innermost at work count for it."""
    counted, at_work = _Counted(Counter(), {}), [""]

    def entering(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, given: tuple[Any, ...]) -> None:
            at_work.append(name)

        return hook

    def leaving(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
            at_work.pop()
            if (first := _first_tensor(output)) is not None:
                counted.shapes[name] = tuple(first.shape)

        return hook

    def product(flops: int) -> None:
        counted.flops[at_work[-1]] += flops

    hooks = []
    for name, module in forced.model.named_modules():
        hooks += [
            module.register_forward_pre_hook(entering(name)),
            module.register_forward_hook(leaving(name)),
        ]
    try:
        with torch.no_grad(), _plainly(forced.model), _Products(product):
            forced()
    finally:
        for hook in hooks:
            hook.remove()
    return counted


MATRIX_PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.mm)
CONVOLUTIONS = (F.conv1d, F.conv2d)


class _Products(TorchFunctionMode):
    """Tells the FLOPs of each product of matrices."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        super().__init__()
        self.tell = tell

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        if function is F.linear or function in MATRIX_PRODUCTS:
            self.tell(2 * output.numel() * args[0].size(-1))
        elif function in CONVOLUTIONS:
            self.tell(2 * output.numel() * args[1][0].numel())
        return output


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, tuple | list):
        return next((found for each in output if (found := _first_tensor(each)) is not None), None)
    return output if isinstance(output, Tensor) else None


@contextmanager
def _plainly(model: nn.Module) -> Iterator[None]:
    """Attention as two products: a fused kernel does not show them."""
    usual = [(each, each.attend) for each in model.modules() if isinstance(each, MultiHeadAttention)]
    for module, _ in usual:
        module.attend = plain_attention
    try:
        yield
    finally:
        for module, attend in usual:
            module.attend = attend


def activation_bytes(forced: ForcedPass) -> int:
    """What one pass in training keeps for the way back, without the masks of dropout."""
    own = {
        each.untyped_storage().data_ptr() for each in (*forced.model.parameters(), *forced.model.buffers())
    }
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would hold the step that holds it, for ever

    with torch.enable_grad(), _learning(forced.model), saved_tensors_hooks(keep, lambda tensor: tensor):
        output = forced()  # held until all is counted: else room is used again
    del output
    return sum(kept.values())


@contextmanager
def _learning(model: nn.Module) -> Iterator[None]:
    """All parameters learn, also those of a model that was loaded to be used."""
    fixed = [each for each in model.parameters() if not each.requires_grad]
    for each in fixed:
        each.requires_grad_(True)
    try:
        yield
    finally:
        for each in fixed:
            each.requires_grad_(False)


@torch.no_grad()
def cache_bytes(forced: ForcedPass) -> int:
    """The keys and values, or the states, that decoding holds when it has read all this; 0 of an encoder."""
    model = forced.model
    if isinstance(model, EncoderOnly):
        return 0
    if isinstance(model, Recurrent):
        cache = model.start(model.encode(*forced.inputs[:2]))
        held = [cache.source.keys, cache.source.values, cache.state.fed]  # keys may be the values themselves
        held += [part for layer in cache.state.layers for part in layer]
        return sum({each.data_ptr(): each.nbytes for each in held if each is not None}.values())
    window = getattr(model.config, "window", None)
    total = 0
    for place in places(model):
        module = model.get_submodule(place.name)
        if place.part == "encoder" or not isinstance(module, MultiHeadAttention):
            continue
        length = len(forced.sequences[place.columns])
        if window is not None:
            length = min(length, window - 1)
        total += 2 * length * module.num_kv_heads * module.d_head * module.output.weight.element_size()
    return total
