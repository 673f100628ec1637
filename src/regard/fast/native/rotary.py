"""Rotary position embedding of one step (rotary.c)."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.fast.native.kernels import kernel
from regard.fast.native.plan import ROTATE, PlannedResult


def rotate(
    x: Float[Tensor, "rows features"],
    angles: Float[Tensor, "rows two_d_head"],
    d_head: int,
) -> Float[Tensor, "rows features"]:
    """Features i and i + d_head / 2 of each head, rotated together: [rows, features].

    `angles` has the sines of each row and then its cosines. The features of a row of `x` must be contiguous
    in memory.
    """
    rows, features = x.shape
    angles, out = angles.contiguous(), torch.empty(rows, features)
    kernel("rotate")(
        x.data_ptr(),
        x.stride(0),
        rows,
        features // d_head,
        d_head,
        angles.data_ptr(),
        out.data_ptr(),
    )
    return out


def plan_rotation(x: PlannedResult, d_head: int) -> PlannedResult:
    """`rotate` in a plan; sines and cosines are an argument of each run."""
    return x.plan.record(ROTATE, x, features=x.features, heads=x.features // d_head)
