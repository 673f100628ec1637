"""Token embeddings (embedding.c)."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.fast.native.kernels import kernel
from regard.fast.native.plan import EMBED, PlannedResult, refuse_ids


def plan_embedding(ids: PlannedResult, table: Float[Tensor, "size features"], scale: float) -> PlannedResult:
    """`embed` in a plan; the vectors of the positions are an argument of each run."""
    size, features = table.shape
    return ids.plan.record(
        EMBED, ids, features=features, kept=table, weights=table.data_ptr(), layer=size, number=scale
    )


def embed(
    ids: Int64[Tensor, " rows"],
    table: Float[Tensor, "size features"],
    scale: float,
    positional: Float[Tensor, "rows features"] | None,
) -> Float[Tensor, "rows features"]:
    """Rows of `table`, scaled; the rows of `positional` are added.

    Raises:
        IndexError: an id is outside the table.
    """
    size, features = table.shape
    ids, out = ids.contiguous(), torch.empty(len(ids), features)
    positional = None if positional is None else positional.contiguous()
    if kernel("embed")(
        ids.data_ptr(), len(ids), table.data_ptr(), size, features, scale,
        None if positional is None else positional.data_ptr(), out.data_ptr(),
    ):  # fmt: skip
        refuse_ids()
    return out
