"""What the trials of registered parts share: a part as it was, and what no part may do."""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.restored import restored

Masks = Literal["causal", "padding"]  # of the stack that has a part
LENGTH, SPLIT = 5, 2  # positions of a trial; those before SPLIT are an earlier part of the text
SAME = 1e-3  # largest difference of equal outputs, as a share of the largest output
PYTORCHS = frozenset(vars(nn.Module()))  # the attributes in which PyTorch keeps its own
OF_A_DEVICE = re.compile(r"cuda|gpu|cpu|device|driver|triton|dtype|data type|fp16|bf16|float16|half", re.I)
OF_SHAPES = re.compile(r"size|shape|dimension|axis|match|broadcast|einsum", re.I)


def differ(one: Tensor, other: Tensor, share: float = SAME) -> bool:
    """True if two results that should be the same are not."""
    tolerance = share * float(one.abs().max().clamp(max=torch.finfo(one.dtype).max / 10))
    return not torch.allclose(one, other, rtol=0.0, atol=tolerance, equal_nan=True)


def is_of_any_device(error: Exception) -> bool:
    """True if a part that fails so on a CPU fails on a GPU, too: for its arguments, names or shapes.

    A kernel for a GPU, or for half precision, fails in many other ways.
    """
    if OF_A_DEVICE.search(str(error)):
        return False
    if isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError):
        return OF_SHAPES.search(str(error)) is not None
    return isinstance(error, TypeError | LookupError | NameError | AttributeError)


def changes_input(what: str) -> ConfigError:
    """The error for a part that writes into the states that it is given."""
    return ConfigError(
        f"{what} changes the states that it is given, which the residual connection adds to its output",
        "return new tensors: x * factor in place of x.mul_(factor), x = x + 1 in place of x += 1",
    )


def ignores_input(what: str) -> ConfigError:
    """The error for a part whose output is the same for all states."""
    return ConfigError(
        f"{what} gives the same output for all states, as x * 0 does", "compute its output from the states"
    )


def refuse_unregistered(what: str, part: nn.Module) -> None:
    """Raise a ConfigError if a part has tensors or layers that PyTorch does not know as its own.

    They would be neither trained nor saved, and stay where they are when the model is moved to a GPU.
    """
    for path, module in part.named_modules():
        for name, value in vars(module).items():
            if name in PYTORCHS:
                continue
            several = value.values() if isinstance(value, dict) else value
            held = [*several] if isinstance(several, list | tuple | type({}.values())) else [value]
            for each in held:
                if (isinstance(each, Tensor) and each.ndim) or isinstance(each, nn.Module):
                    kind = "a tensor" if isinstance(each, Tensor) else "a layer"
                    place = f"{path}.{name}" if path else name
                    raise ConfigError(
                        f"{what} keeps {kind} in {place} that is neither trained nor saved",
                        "use nn.Parameter for what is trained, register_buffer for other tensors, and"
                        " nn.ModuleList or nn.ParameterList in place of a list",
                    )


@contextmanager
def varied(part: nn.Module) -> Iterator[None]:
    """A context in which all trained parameters have other numbers, so that none are equal by their start."""
    trained = [each for each in part.parameters() if each.requires_grad and each.is_floating_point()]
    with torch.no_grad(), restored(part, *trained):
        for each in trained:
            each += torch.rand_like(each)
        yield


@contextmanager
def unchanged(part: nn.Module) -> Iterator[None]:
    """A context in which a part is evaluated without gradients, and after which all is as before.

    In it, parameters whose numbers are all the same have others: positions that are all 0 are equal, and so
    would be the outputs of a layer that begins as 0.
    """
    python, numpy = random.getstate(), np.random.get_state()
    constant = [
        each
        for each in part.parameters()
        if each.requires_grad and each.is_floating_point() and bool((each == each.flatten()[:1]).all())
    ]
    with torch.no_grad(), torch.random.fork_rng(devices=[]), restored(part, *constant):
        try:
            part.eval()
            torch.default_generator.manual_seed(0)
            for each in constant:
                each += torch.rand_like(each)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
