"""Copies in half precision that come with a tensor: a norm writes both in one pass over memory.

Under autocast the output of a norm is float32, because residual connections add to it, and each linear layer
that reads it casts it first.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


def with_half(x: Float[Tensor, "*shape"], half: Float[Tensor, "*shape"] | None) -> Float[Tensor, "*shape"]:
    """`x`, which comes with its copy from now on."""
    _set(x, "half_copy", half)
    return x


def half_of(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The copy of `x` in the type of autocast; `x` itself if there is none, or if it has changed since."""
    half = _get(x, "half_copy")
    return x if half is None or half.dtype != torch.get_autocast_dtype(x.device.type) else half


def with_normed(
    x: Float[Tensor, "*shape"], norm: nn.Module, normed: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """`x`, which comes with `norm(x)` from now on."""
    _set(x, "normed_copy", (norm, normed))
    return x


def normed_of(x: Float[Tensor, "*shape"], norm: nn.Module) -> Float[Tensor, "*shape"] | None:
    """`norm(x)` if `x` comes with it, and has not changed since."""
    found = _get(x, "normed_copy")
    return None if found is None or found[0] is not norm else found[1]


def _set(x: Tensor, name: str, value: Any) -> None:
    vars(x)[name] = value, x._version


def _get(x: Tensor, name: str) -> Any:
    value, version = vars(x).get(name, (None, None))
    return value if version == x._version else None
