"""Attention of one query a row to its keys and values in a `StaticCache`: the kernel of a GPU."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.fast.fusible import has_triton
from regard.layers.attention import MultiHeadAttention

WIDTHS = (16, 32, 64, 128, 256)  # of a head

NewKeyValue = tuple[Float[Tensor, "places kv_heads 1 d_head"], Float[Tensor, "places kv_heads 1 d_head"]]


def has_kernel(module: MultiHeadAttention, query: Tensor) -> bool:
    """True if `one_query_attention` can compute this attention here."""
    return (
        query.device.type == "cuda"
        and query.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and module.d_head in WIDTHS
        and has_triton()
    )


def one_query_attention(
    module: MultiHeadAttention,
    query: Float[Tensor, "places heads 1 d_head"],
    new: NewKeyValue | None,
    read: Float[Tensor, "2 places kv_heads positions d_head"],
    lengths: Int64[Tensor, " places"],
    window: int | None = None,
) -> Float[Tensor, "places 1 features"]:
    """Each query attends to the first `lengths` positions of its place, and to `new`, which is stored there.

    With a `window` only to the last `window` positions, `new` included.
    """
    from regard.fast.triton.one_query import attend

    out = torch.empty(len(query), 1, query.size(1) * query.size(3), dtype=query.dtype, device=query.device)
    attend(query[:, :, 0], new, read, lengths, out[:, 0], scale=scale_of(module), window=window or 0)
    return out


def scale_of(module: MultiHeadAttention) -> float:
    """The factor of an attention's scores."""
    return module.d_head**-0.5 if module.scale is None else module.scale
