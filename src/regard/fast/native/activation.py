"""Activations whose result for an element does not depend on its place, to the bit (activation.c)."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.fast.native.kernels import kernel
from regard.fast.native.plan import ACTIVATE, PlannedResult, Rows

SILU, GELU_TANH, GELU, QUICK_GELU = 0, 1, 2, 3


def kind_of(activation: Callable[[Tensor], Tensor]) -> int | None:
    """The number of the kernel for this activation of PyTorch; None if there is none."""
    if activation is F.silu:
        return SILU
    if activation is F.gelu:
        return GELU
    if isinstance(activation, partial) and activation.func is F.gelu:
        return GELU_TANH if activation.keywords == {"approximate": "tanh"} else None
    return None


def activate(x: Rows, kind: int, times: Rows | None = None) -> Rows:
    """The activation of x, multiplied by `times`: [rows, features].

    The features of a row must be contiguous in memory.
    """
    if isinstance(x, PlannedResult):
        assert times is None or isinstance(times, PlannedResult)
        return x.plan.record(ACTIVATE, x, times, features=x.features, flag=kind)  # pyright: ignore[reportReturnType]
    assert times is None or isinstance(times, Tensor)
    return _activated(x, kind, times)  # pyright: ignore[reportReturnType]


def _activated(
    x: Float[Tensor, "rows features"], kind: int, times: Float[Tensor, "rows features"] | None
) -> Float[Tensor, "rows features"]:
    out = torch.empty(x.shape)
    kernel("activate")(
        x.data_ptr(), x.stride(0), None if times is None else times.data_ptr(),
        0 if times is None else times.stride(0), *x.shape, kind, out.data_ptr(),
    )  # fmt: skip
    return out
