"""Attention of one query a row to the keys and values in a cache, of each row as many as it has."""

from typing import no_type_check

import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

AT_A_TIME = 8192  # bytes of keys, and of values; LEAST_POSITIONS at least
LEAST_POSITIONS, MOST_POSITIONS = 16, 64
LEAST_QUERIES = 16  # of a product; the query heads of a group are its rows


@triton.jit(do_not_specialize=["window"])
@no_type_check
def _attend(
    query, key, value, keys, values, lengths, out, scale, window,
    query_row, query_head, key_row, key_head, value_row, value_head,
    stored_row, stored_head, stored_at, out_row,
    HAS_NEW: tl.constexpr, GROUP: tl.constexpr, QUERIES: tl.constexpr, WIDTH: tl.constexpr,
    POSITIONS: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    member, feature = tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    is_query = (member < GROUP)[:, None]
    heads = head * GROUP + member
    q = tl.load(
        query + row * query_row + heads[:, None] * query_head + feature[None, :], mask=is_query, other=0.0
    )
    length = tl.load(lengths + row).to(tl.int32)
    keys += row * stored_row + head * stored_head
    values += row * stored_row + head * stored_head
    first = 0
    if HAS_NEW:
        new_key = tl.load(key + row * key_row + head * key_head + feature)
        new_value = tl.load(value + row * value_row + head * value_head + feature)
        tl.store(keys + length * stored_at + feature, new_key)
        tl.store(values + length * stored_at + feature, new_value)
        greatest = tl.sum(q.to(tl.float32) * new_key.to(tl.float32)[None, :], 1) * scale
        total = tl.full((QUERIES,), 1.0, tl.float32)
        mixed = tl.zeros((QUERIES, WIDTH), tl.float32) + new_value.to(tl.float32)[None, :]
        if window > 0:
            first = tl.maximum(0, length + 1 - window)
    else:
        greatest = tl.full((QUERIES,), float("-inf"), tl.float32)
        total = tl.full((QUERIES,), 0.0, tl.float32)
        mixed = tl.zeros((QUERIES, WIDTH), tl.float32)
    for begin in range(first, length, POSITIONS):
        position = begin + tl.arange(0, POSITIONS)
        inside = position < length
        places = position[:, None] * stored_at + feature[None, :]
        k = tl.load(keys + places, mask=inside[:, None], other=0.0)
        v = tl.load(values + places, mask=inside[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(inside[None, :], scores, float("-inf"))
        here = tl.maximum(greatest, tl.max(scores, 1))
        weights = tl.exp(scores - here[:, None])
        faded = tl.exp(greatest - here)
        total = total * faded + tl.sum(weights, 1)
        mixed = mixed * faded[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        greatest = here
    places = out + row * out_row + heads[:, None] * WIDTH + feature[None, :]
    tl.store(places, mixed / tl.maximum(total, 1e-30)[:, None], mask=is_query)  # zeros of nothing


def attend(
    query: Float[Tensor, "places heads d_head"],
    new: tuple[Tensor, Tensor] | None,
    read: Float[Tensor, "2 places kv_heads positions d_head"],
    lengths: Int64[Tensor, " places"],
    out: Float[Tensor, "places features"],
    *,
    scale: float,
    window: int,
) -> None:
    """`one_query.one_query_attention` into `out`; a `window` of 0 is none."""
    rows, kv_heads, group = len(query), read.size(2), query.size(1) // read.size(2)
    query = query if query.stride(-1) == 1 else query.contiguous()
    key, value = (read[0], read[1]) if new is None else (_of_last_stride_1(each) for each in new)
    _attend[(rows, kv_heads)](
        query, key, value, read[0], read[1], lengths, out, scale, window,
        query.stride(0), query.stride(1), key.stride(0), key.stride(1), value.stride(0), value.stride(1),
        read.stride(1), read.stride(2), read.stride(3), out.stride(0),
        HAS_NEW=new is not None, GROUP=group, QUERIES=max(LEAST_QUERIES, triton.next_power_of_2(group)),
        WIDTH=query.size(2), POSITIONS=_positions(read), num_warps=4, num_stages=2,
    )  # fmt: skip


def _positions(read: Tensor) -> int:
    count = AT_A_TIME // (read.size(-1) * read.element_size())
    return min(MOST_POSITIONS, max(LEAST_POSITIONS, count))


def _of_last_stride_1(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
