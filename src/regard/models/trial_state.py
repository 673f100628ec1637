"""What the trials of registered parts share: a part as it was, and what no part may do."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from regard.errors import ConfigError


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


@contextmanager
def unchanged(part: nn.Module) -> Iterator[None]:
    """A context in which a part is evaluated without gradients, and after which all is as before.

    In it, parameters whose numbers are all the same have others: positions that are all 0 are equal, and so
    would be the outputs of a layer that begins as 0.
    """
    modes = {each: each.training for each in part.modules()}
    python, numpy = random.getstate(), np.random.get_state()
    constant = [
        each
        for each in part.parameters()
        if each.requires_grad and each.is_floating_point() and bool((each == each.flatten()[:1]).all())
    ]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        kept = [(each, each.clone()) for each in (*constant, *part.buffers())]
        try:
            part.eval()
            torch.default_generator.manual_seed(0)
            for each in constant:
                each += torch.rand_like(each)
            yield
        finally:
            for each, before in kept:
                each.copy_(before)
            for module, mode in modes.items():
                module.training = mode
            random.setstate(python)
            np.random.set_state(numpy)
