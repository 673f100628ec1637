"""The tree of a model's modules: parameters, output shapes and FLOPs of one pass; memory of the model.

FLOPs are those of matrix products (2 m n k each) and convolutions. All of Q K^T counts, masked positions too.
Norms, softmax, activations and embedding look-ups are left out, as is usual (Kaplan et al. 2020).
torch.utils.flop_counter gives the same numbers, but imports PyTorch's compiler first, which takes seconds.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

from regard.inspection.own_thread import in_this_thread
from regard.inspection.passes import ForcedPass, attention_sites
from regard.layers.attention import MultiHeadAttention
from regard.layers.kernels import exchanged, has_own_kernel, softcap_of
from regard.layers.scaled_dot_product import plain_attention
from regard.models.encoder_only import EncoderOnly
from regard.models.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class ModuleCosts:
    """A module; its parameters and FLOPs include those of its children."""

    name: str  # "decoder.blocks.2.cross_attention"; "" for the model itself
    type: str
    parameters: int  # their number; tied ones count in the first module that has them
    tied: int  # number of parameters that an earlier module has too, where they count
    flops: int  # in this pass
    output: tuple[int, ...] | None  # shape of its last output; None if it was not called
    children: tuple["ModuleCosts", ...]


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Costs of the whole model for this input."""

    parameters: int
    flops: int  # of the forced pass: all positions at once
    cache_bytes: int  # of the decoding cache after all positions: keys and values, or recurrent states
    activation_bytes: int  # saved for the backward pass of this example; no parameters, no dropout masks


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model's modules and its total costs."""

    tree: ModuleCosts
    totals: Totals


def architecture_of(forced: ForcedPass) -> Architecture:
    """The architecture of the model of a pass, with the costs of this pass."""
    tree = _costs(forced.model, "", _count(forced), set())
    totals = Totals(
        parameters=tree.parameters,
        flops=tree.flops,
        cache_bytes=_cache_bytes(forced),
        activation_bytes=_activation_bytes(forced),
    )
    return Architecture(tree=tree, totals=totals)


@dataclass(frozen=True)
class _Counts:
    """What is counted in a pass, by the names of modules."""

    flops: Counter[str]  # of a module itself, without its children
    shapes: dict[str, tuple[int, ...]]  # of its last output


def _costs(module: nn.Module, name: str, counts: _Counts, counted: set[int]) -> ModuleCosts:
    """The tree below a module; `counted`: the ids of earlier modules' parameters; gets its own."""
    own = list(module.parameters(recurse=False))
    tied = sum(each.numel() for each in own if id(each) in counted)
    counted.update(map(id, own))
    children = tuple(
        _costs(child, f"{name}.{last}" if name else last, counts, counted)
        for last, child in module.named_children()
    )
    return ModuleCosts(
        name=name,
        type=type(module).__name__,
        parameters=sum(each.numel() for each in own) - tied + sum(child.parameters for child in children),
        tied=tied + sum(child.tied for child in children),
        flops=counts.flops[name] + sum(child.flops for child in children),
        output=counts.shapes.get(name),
        children=children,
    )


def _count(forced: ForcedPass) -> _Counts:
    """FLOPs and output shapes by module: a product counts for the innermost module that is running."""
    counts, running = _Counts(Counter(), {}), [""]

    def before(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            running.append(name)

        return hook

    def after(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            running.pop()
            if (first := _first_tensor(output)) is not None:
                counts.shapes[name] = tuple(first.shape)

        return hook

    def add_flops(flops: int) -> None:
        counts.flops[running[-1]] += flops

    hooks = []
    for name, module in forced.model.named_modules():
        hooks += [
            module.register_forward_pre_hook(in_this_thread(before(name))),
            module.register_forward_hook(in_this_thread(after(name))),
        ]
    try:
        with torch.no_grad(), _with_plain_attention(forced.model), _ProductCounter(add_flops):
            forced()
    finally:
        for hook in hooks:
            hook.remove()
    return counts


MATRIX_PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.mm)
CONVOLUTIONS = (F.conv1d, F.conv2d)


class _ProductCounter(TorchFunctionMode):
    """Reports the FLOPs of each matrix product and convolution."""

    def __init__(self, report: Callable[[int], None]) -> None:
        super().__init__()
        self.report = report

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        if function is F.linear or function in MATRIX_PRODUCTS:
            self.report(2 * output.numel() * args[0].size(-1))
        elif function in CONVOLUTIONS:
            self.report(2 * output.numel() * args[1][0].numel())
        return output


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, tuple | list):
        return next((found for each in output if (found := _first_tensor(each)) is not None), None)
    return output if isinstance(output, Tensor) else None


@contextmanager
def _with_plain_attention(model: nn.Module) -> Iterator[None]:
    """A context in which attentions use the plain kernel: a fused one hides its two matrix products.

    Kernels that are not one of regard's stay as they are.
    """
    with ExitStack() as undo:
        for module in model.modules():
            if not isinstance(module, MultiHeadAttention) or has_own_kernel(module):
                continue
            if softcap_of(module) is None:  # capped attention is plain
                undo.enter_context(exchanged(module, plain_attention))
        yield


def _activation_bytes(forced: ForcedPass) -> int:
    """The bytes of all tensors but the model's own that the pass saves for a backward pass."""
    weights = (*forced.model.parameters(), *forced.model.buffers())
    own = {each.untyped_storage().data_ptr() for each in weights}
    saved: dict[int, int] = {}  # address -> bytes

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would make a reference cycle with its autograd node

    with torch.enable_grad(), _all_trainable(forced.model), saved_tensors_hooks(save, lambda tensor: tensor):
        output = forced()  # kept until all is counted: freed memory could be counted twice
    del output
    return sum(saved.values())


@contextmanager
def _all_trainable(model: nn.Module) -> Iterator[None]:
    """A context in which all parameters require gradients, even in a model loaded for inference."""
    frozen = [each for each in model.parameters() if not each.requires_grad]
    for each in frozen:
        each.requires_grad_(True)
    try:
        yield
    finally:
        for each in frozen:
            each.requires_grad_(False)


@torch.no_grad()
def _cache_bytes(forced: ForcedPass) -> int:
    """The size of the decoding cache after all positions of the pass; 0 for an encoder."""
    model = forced.model
    if isinstance(model, EncoderOnly):
        return 0
    if isinstance(model, Recurrent):
        cache = model.start(model.encode(*forced.inputs[:2]))
        cached = [cache.source.keys, cache.source.values, cache.state.last_output]
        cached += [part for layer in cache.state.layers for part in layer]
        # by address: keys and values may share memory
        return sum({each.data_ptr(): each.nbytes for each in cached if each is not None}.values())
    windows = getattr(model.config, "windows", ())
    total = 0
    for site in attention_sites(model):
        module = model.get_submodule(site.name)
        if site.part == "encoder" or not isinstance(module, MultiHeadAttention):
            continue
        length = len(forced.sequences[site.columns])
        if windows and (window := windows[site.layer]) is not None:
            length = min(length, window - 1)
        total += 2 * length * module.num_kv_heads * module.d_head * module.output.weight.element_size()
    return total
