"""Activations whose bits do not depend on where an element stands (activation.c)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.native.kernels import kernel
from regard.native.plan import ACTIVATE, Planned

SILU, GELU_TANH, GELU = 0, 1, 2


def kind_of(activation: Callable[[Tensor], Tensor]) -> int | None:
    """Which of the kernels this is; None for another one."""
    if activation is F.silu:
        return SILU
    if activation is F.gelu:
        return GELU
    if isinstance(activation, partial) and activation.func is F.gelu:
        return GELU_TANH if activation.keywords == {"approximate": "tanh"} else None
    return None


def activate(
    x: Float[Tensor, "rows features"] | Planned,
    kind: int,
    times: Float[Tensor, "rows features"] | Planned | None = None,
) -> Any:
    """The activation of x, multiplied by `times`: [rows, features].

    Features of a row lie beside each other.
    """
    if isinstance(x, Planned):
        return x.plan.note(ACTIVATE, x, times, features=x.features, flag=kind)
    assert not isinstance(times, Planned)
    out = torch.empty(x.shape)
    kernel("activate")(
        x.data_ptr(), x.stride(0), None if times is None else times.data_ptr(),
        0 if times is None else times.stride(0), *x.shape, kind, out.data_ptr(),
    )  # fmt: skip
    return out
