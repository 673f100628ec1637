"""Attention for decoding: one query per head (attention.c)."""

import ctypes

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from regard.fast.native.kernels import constant, kernel, threads_for
from regard.fast.native.plan import TO_MEMORY, TO_SELF, PlannedResult


class Heads(ctypes.Structure):
    """The struct `Heads` of kernels.h."""

    _fields_ = [
        *[(name, ctypes.c_long) for name in ("rows", "groups", "queries_per_group", "d", "weights_row")],
        ("scale", ctypes.c_float), ("threads", ctypes.c_int),
    ]  # fmt: skip


def attend_to_memory(
    query: Float[Tensor, "rows width"],
    key: Float[Tensor, "positions kv_width"],
    value: Float[Tensor, "positions kv_width"],
    starts: Int64[Tensor, " rows"],
    lengths: Int64[Tensor, " rows"],
    longest: int,
    d_head: int,
    scale: float,
) -> Float[Tensor, "rows width"]:
    """softmax(q K^T scale) V: each row attends to `lengths` (`longest` at most) positions from `starts` on.

    Vaswani et al. 2017, equation 1. The keys of a group are shared by neighbouring heads. The features of a
    row must be contiguous in memory.
    """
    heads = _heads(query.size(0), key.size(1) // d_head, query.size(1), d_head, longest, scale)
    weights = torch.empty(heads.threads, query.size(1) // d_head, heads.weights_row)
    out = torch.empty(query.shape)
    kernel("attend_to_memory")(
        ctypes.addressof(heads), query.data_ptr(), query.stride(0), key.data_ptr(), key.stride(0),
        value.data_ptr(), value.stride(0), starts.data_ptr(), lengths.data_ptr(), weights.data_ptr(),
        out.data_ptr(),
    )  # fmt: skip
    return out


def attend_to_self(
    query: Float[Tensor, "rows width"],
    key: Float[Tensor, "rows kv_width"],
    value: Float[Tensor, "rows kv_width"],
    keys: Float[Tensor, "slots kv_width"],
    values: Float[Tensor, "slots kv_width"],
    table: Int32[Tensor, "rows capacity"],
    slots: Int32[Tensor, " rows"],
    begins: Int64[Tensor, " rows"],
    positions: Int64[Tensor, " rows"],
    d_head: int,
    scale: float,
) -> Float[Tensor, "rows width"]:
    """Self-attention of the next position of each row to all up to it; its keys are stored first.

    The key of row i at position p is in `keys[table[i, p]]`. That of its position `positions[i]` is stored in
    `keys[slots[i]]` and entered in the table; it attends to positions from `begins[i]` on. The features of a
    row must be contiguous in memory.
    """
    seen = int((positions - begins).max()) + 1
    heads = _heads(query.size(0), key.size(1) // d_head, query.size(1), d_head, seen, scale)
    weights = torch.empty(heads.threads, query.size(1) // d_head, heads.weights_row)
    out = torch.empty(query.shape)
    kernel("attend_to_self")(
        ctypes.addressof(heads), query.data_ptr(), query.stride(0), key.data_ptr(), key.stride(0),
        value.data_ptr(), value.stride(0), keys.data_ptr(), values.data_ptr(), table.data_ptr(),
        table.stride(0), slots.data_ptr(), begins.data_ptr(), positions.data_ptr(), weights.data_ptr(),
        out.data_ptr(),
    )  # fmt: skip
    return out


def plan_to_memory(query: PlannedResult, layer: int, groups: int, d_head: int, scale: float) -> PlannedResult:
    """`attend_to_memory` in a plan; `layer` is the number of the memory, `groups` its number of key heads."""
    return _plan(TO_MEMORY, query, layer=layer, groups=groups, d_head=d_head, scale=scale)


def plan_to_self(
    query: PlannedResult, key: PlannedResult, value: PlannedResult, layer: int, d_head: int, scale: float
) -> PlannedResult:
    """`attend_to_self` in a plan; `layer` is the number of the keys and values."""
    return _plan(
        TO_SELF, query, key, value, layer=layer, groups=key.features // d_head, d_head=d_head, scale=scale
    )


def _plan(
    kind: int, query: PlannedResult, *held: PlannedResult, layer: int, groups: int, d_head: int, scale: float
) -> PlannedResult:
    heads, features = query.features // d_head, query.features
    return query.plan.record(
        kind, query, *held, features=features, heads=heads, groups=groups, layer=layer, number=scale
    )


def _heads(rows: int, groups: int, width: int, d_head: int, seen: int, scale: float) -> Heads:
    threads = threads_for(rows * width * seen)
    return Heads(
        rows, groups, width // (groups * d_head), d_head, seen + constant("panel_width"), scale, threads
    )
