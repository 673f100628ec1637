"""Activation checkpointing (Chen et al. 2016): the backward pass computes activations again.

The forward pass keeps only the input of each block, for less memory and the time of a second forward pass.
The random state is kept too, so that dropout is the same and so are the gradients, to the bit.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.errors import RecipeError


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of all stacks of a model: the modules in its lists that are called `blocks`, each once."""
    lists = (each for name, each in model.named_modules() if name.rpartition(".")[2] == "blocks")
    return [*dict.fromkeys(block for each in lists if isinstance(each, nn.ModuleList) for block in each)]


def refuse_without_blocks(model: nn.Module) -> None:
    """Raises a RecipeError for a model whose activations would all be kept.

    Raises:
        RecipeError: the model has no list of modules that is called `blocks`.
    """
    if not blocks_of(model):
        raise RecipeError(
            f"training.recompute_activations = true, but {type(model).__name__} has no list of `blocks`",
            "leave it out; smaller batches.batch_tokens need less memory too",
        )


@contextmanager
def recomputed(model: nn.Module, *, on: bool = True) -> Iterator[None]:
    """A context in which the blocks of `model` keep nothing but their inputs for the backward pass."""
    blocks = blocks_of(model) if on else []
    before = [vars(block).get("forward") for block in blocks]
    for block in blocks:
        vars(block)["forward"] = partial(_forward, block, block.forward)
    try:
        yield
    finally:
        for block, forward in zip(blocks, before, strict=True):
            vars(block).pop("forward", None)
            if forward is not None:
                vars(block)["forward"] = forward


def _forward(block: nn.Module, forward: Any, *inputs: Any, **more: Any) -> Any:
    buffers = [
        (module, name, buffer.clone())
        for module in block.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]

    def contexts() -> tuple[Any, Any]:
        return nullcontext(), _with_buffers(buffers)

    return checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts, **more)


@contextmanager
def _with_buffers(buffers: Sequence[tuple[nn.Module, str, Tensor]]) -> Iterator[None]:
    """A context in which modules have these buffers: the second pass reads what the first one has read.

    What it writes is dropped, so a batch norm counts a batch once.
    """
    now = [module._buffers[name] for module, name, _ in buffers]
    for module, name, value in buffers:
        module._buffers[name] = value.clone()
    try:
        yield
    finally:
        for (module, name, _), buffer in zip(buffers, now, strict=True):
            module._buffers[name] = buffer
