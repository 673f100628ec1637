"""A module as it was before a trial of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def restored(module: nn.Module, *parameters: nn.Parameter) -> Iterator[None]:
    """A context after which modes, buffers and these `parameters` of a module are as before."""
    modes = {each: each.training for each in module.modules()}
    kept = [(each, each.detach().clone()) for each in (*parameters, *module.buffers())]
    try:
        yield
    finally:
        with torch.no_grad():
            for each, before in kept:
                each.copy_(before)
        for each, mode in modes.items():
            each.training = mode
