"""Copies that come with a tensor: in half precision, or as the next norm makes of it.

Under autocast the output of a norm is float32, because residual connections add to it, and each linear layer
that reads it casts it first. A norm can write both in one pass over memory. A gradient of the tensor itself
then lacks what comes by its copy, so there are copies only within `copies`, where nobody asks for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

_are_used: ContextVar[bool] = ContextVar("copies are used", default=False)


@contextmanager
def copies(are_used: bool) -> Iterator[None]:
    """A context in which tensors come with copies, if `are_used`."""
    token = _are_used.set(are_used)
    try:
        yield
    finally:
        _are_used.reset(token)


def copies_are_used() -> bool:
    """True within `copies(True)`."""
    return _are_used.get()


def with_half(x: Float[Tensor, "*shape"], half: Float[Tensor, "*shape"] | None) -> Float[Tensor, "*shape"]:
    """`x`, which comes with its copy from now on."""
    if half is not None:
        vars(x)["half_copy"] = half, x._version
    return x


def half_of(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The copy of `x` in the type of autocast; `x` itself if there is none, or if it has changed since."""
    half = _get(x, "half_copy")
    return x if half is None or half.dtype != torch.get_autocast_dtype(x.device.type) else half


def with_normed(
    x: Float[Tensor, "*shape"], norm: nn.Module, normed: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """`x`, which comes with `norm(x)` from now on."""
    vars(x)["normed_copy"] = (norm, normed), x._version
    return x


def normed_of(x: Float[Tensor, "*shape"], norm: nn.Module, dtype: torch.dtype) -> Tensor | None:
    """`norm(x)` in this type if `x` comes with it, and has not changed since."""
    found = _get(x, "normed_copy")
    return None if found is None or found[0] is not norm or found[1].dtype != dtype else found[1]


def _get(x: Tensor, name: str) -> Any:
    found = vars(x).get(name) if _are_used.get() else None
    if found is None:
        return None
    value, version = found
    return value if version == x._version else None
