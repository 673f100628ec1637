"""Token embeddings (embedding.c)."""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.native.kernels import kernel
from regard.native.plan import EMBED, Planned, refuse_ids


def embed(
    ids: Int64[Tensor, " rows"] | Planned,
    table: Float[Tensor, "size features"],
    scale: float,
    plus: Float[Tensor, "1 features"] | None,
) -> Any:
    """Rows of a table, scaled, and the same row `plus` added to all: [rows, features].

    To what is planned that is added which it is run with.

    Raises:
        IndexError: an id is none of the table's.
    """
    size, features = table.shape
    if isinstance(ids, Planned):
        return ids.plan.note(
            EMBED, ids, features=features, kept=table, weights=table.data_ptr(), layer=size, number=scale
        )
    ids, out = ids.contiguous(), torch.empty(len(ids), features)
    if kernel("embed")(
        ids.data_ptr(), len(ids), table.data_ptr(), size, features, scale,
        None if plus is None else plus.data_ptr(), out.data_ptr(),
    ):  # fmt: skip
        refuse_ids()
    return out
