"""Heads turned by their position (rotary.c)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.native.kernels import kernel
from regard.native.plan import ROTATE, Planned


def rotate(
    x: Float[Tensor, "rows features"] | Planned,
    sine: Float[Tensor, "1 d_head"] | None,
    cosine: Float[Tensor, "1 d_head"] | None,
    d_head: int,
) -> Any:
    """Features i and i + d_head / 2 of each head turned together: [rows, features].

    What is planned is turned by what it is run with. Features of a row lie beside each other.
    """
    if isinstance(x, Planned):
        return x.plan.note(ROTATE, x, features=x.features, heads=x.features // d_head)
    assert sine is not None
    assert cosine is not None
    rows, features = x.shape
    out = torch.empty(rows, features)
    kernel("rotate")(
        x.data_ptr(), x.stride(0), rows, features // d_head, d_head, sine.data_ptr(), cosine.data_ptr(),
        out.data_ptr(),
    )  # fmt: skip
    return out
