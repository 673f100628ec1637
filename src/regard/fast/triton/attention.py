"""Attention of short sequences in training on a GPU: one program computes a head of a row.

PyTorch's kernels are made for long sequences: their tiles are larger than a sentence. Here all scores of a
head are in the registers, and its gradients are computed from queries, keys and values alone. Rows are padded
to one length, or lie one after another (`PackedRows`).
"""

from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.fast.fusible import LONGEST
from regard.fast.triton.norm import SEED_IN_MEMORY, Drops

BYTES = 10  # of shared memory that the backward pass takes, for each position and feature
WIDTHS = (16, 32, 64, 128)  # of a head
# for other values of these no kernel is compiled again
CHANGING = ["seed", "targets", "sources", "mask_row", "mask_target"]


@triton.jit
@no_type_check
def _head(tensor, row, head, by_row, by_head, by_position, position, positions, feature):
    """The vectors of a head at these positions; zeros after the last one."""
    places = row * by_row + head * by_head + position[:, None] * by_position + feature[None, :]
    return tl.load(tensor + places, mask=(position < positions)[:, None], other=0.0)


@triton.jit
@no_type_check
def _extent(bounds, row):
    """Where a packed row begins, and how many positions it has."""
    first = tl.load(bounds + row)
    return first, (tl.load(bounds + row + 1) - first).to(tl.int32)


@triton.jit
@no_type_check
def _weights(
    q, k, mask, scale, row, target, source, targets, sources, mask_row, mask_target,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Attention weights of a head."""
    scores = tl.dot(q, tl.trans(k)) * scale
    inside = (target[:, None] < targets) & (source[None, :] < sources)
    if CAUSAL:
        inside = inside & (source[None, :] <= target[:, None])
    if MASKED:
        places = mask + row * mask_row + target[:, None] * mask_target + source[None, :]
        inside = inside & (tl.load(places, mask=inside, other=0) != 0)
    scores = tl.where(inside, scores, float("-inf"))
    greatest = tl.max(scores, 1)
    weights = tl.exp(scores - tl.where(greatest == float("-inf"), 0.0, greatest)[:, None])
    return weights / tl.maximum(tl.sum(weights, 1), 1e-30)[:, None]  # zeros if it may attend to nothing


@triton.jit
@no_type_check
def _keeps(seed, p, target, source, targets, sources):
    """Which weights of a head are not dropped; each head has a grid of `targets` x `sources` numbers."""
    at = (tl.program_id(0) * targets + target[:, None]) * sources + source[None, :]
    return tl.rand(seed, at) >= p


@triton.jit(do_not_specialize=CHANGING)
@no_type_check
def _attend(
    query, key, value, mask, target_bounds, source_bounds, out, seed, p, scale, heads, targets, sources,
    query_row, query_head, query_at, key_row, key_head, key_at, value_row, value_head, value_at,
    out_row, out_head, out_at, mask_row, mask_target,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, PACKED: tl.constexpr, DROPS: tl.constexpr,
    TARGETS: tl.constexpr, SOURCES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    if DROPS == SEED_IN_MEMORY:
        seed = tl.load(seed).to(tl.int32)
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    target, source, feature = tl.arange(0, TARGETS), tl.arange(0, SOURCES), tl.arange(0, WIDTH)
    grid_targets, grid_sources = targets, sources
    if PACKED:
        grid_targets, grid_sources = TARGETS, SOURCES
        first_target, targets = _extent(target_bounds, row)
        first_source, sources = _extent(source_bounds, row)
        if targets <= 0:
            return
        query, out = query + first_target * query_at, out + first_target * out_at
        key, value = key + first_source * key_at, value + first_source * value_at
        row = row * 0
    q = _head(query, row, head, query_row, query_head, query_at, target, targets, feature)
    k = _head(key, row, head, key_row, key_head, key_at, source, sources, feature)
    v = _head(value, row, head, value_row, value_head, value_at, source, sources, feature)
    weights = _weights(
        q, k, mask, scale, row, target, source, targets, sources, mask_row, mask_target, MASKED, CAUSAL
    )
    if DROPS:
        keeps = _keeps(seed, p, target, source, grid_targets, grid_sources)
        weights = tl.where(keeps, weights / (1.0 - p), 0.0)
    mixed = tl.dot(weights.to(v.dtype), v)
    places = out + row * out_row + head * out_head + target[:, None] * out_at + feature[None, :]
    tl.store(places, mixed, mask=(target < targets)[:, None])


@triton.jit(do_not_specialize=CHANGING)
@no_type_check
def _attend_backward(
    gradient, query, key, value, mask, target_bounds, source_bounds, of_query, of_key, of_value,
    seed, p, scale, heads, targets, sources,
    slope_row, slope_head, slope_at,
    query_row, query_head, query_at, key_row, key_head, key_at, value_row, value_head, value_at,
    out_row, out_head, out_at, in_row, in_head, in_at, mask_row, mask_target,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, PACKED: tl.constexpr, DROPS: tl.constexpr,
    TARGETS: tl.constexpr, SOURCES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    if DROPS == SEED_IN_MEMORY:
        seed = tl.load(seed).to(tl.int32)
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    target, source, feature = tl.arange(0, TARGETS), tl.arange(0, SOURCES), tl.arange(0, WIDTH)
    grid_targets, grid_sources = targets, sources
    if PACKED:
        grid_targets, grid_sources = TARGETS, SOURCES
        first_target, targets = _extent(target_bounds, row)
        first_source, sources = _extent(source_bounds, row)
        if targets + sources <= 0:
            return
        gradient, query = gradient + first_target * slope_at, query + first_target * query_at
        key, value = key + first_source * key_at, value + first_source * value_at
        of_query = of_query + first_target * out_at
        of_key, of_value = of_key + first_source * in_at, of_value + first_source * in_at
        row = row * 0
    is_target, is_source = (target < targets)[:, None], (source < sources)[:, None]
    q = _head(query, row, head, query_row, query_head, query_at, target, targets, feature)
    k = _head(key, row, head, key_row, key_head, key_at, source, sources, feature)
    v = _head(value, row, head, value_row, value_head, value_at, source, sources, feature)
    slope = _head(gradient, row, head, slope_row, slope_head, slope_at, target, targets, feature).to(v.dtype)
    weights = _weights(
        q, k, mask, scale, row, target, source, targets, sources, mask_row, mask_target, MASKED, CAUSAL
    )
    of_weights = tl.dot(slope, tl.trans(v))
    kept = weights
    if DROPS:
        keeps = _keeps(seed, p, target, source, grid_targets, grid_sources)
        kept = tl.where(keeps, weights / (1.0 - p), 0.0)
        of_weights = tl.where(keeps, of_weights / (1.0 - p), 0.0)
    places = row * in_row + head * in_head + source[:, None] * in_at + feature[None, :]
    tl.store(of_value + places, tl.dot(tl.trans(kept.to(v.dtype)), slope), mask=is_source)
    of_scores = weights * (of_weights - tl.sum(weights * of_weights, 1)[:, None]) * scale
    of_scores = of_scores.to(v.dtype)
    tl.store(of_key + places, tl.dot(tl.trans(of_scores), q), mask=is_source)
    places = row * out_row + head * out_head + target[:, None] * out_at + feature[None, :]
    tl.store(of_query + places, tl.dot(of_scores, k), mask=is_target)


class PackedRows(NamedTuple):
    """Where rows lie that follow one another without padding, in a batch of one.

    Row i has the queries from `target_bounds[i]` to `target_bounds[i + 1]`, and so its keys; it may have none
    of either. Every position belongs to a row of at most `longest` positions.
    """

    target_bounds: Int64[Tensor, " bounds"]
    source_bounds: Int64[Tensor, " bounds"]
    longest: int
    is_causal: bool


class ShortAttention(torch.autograd.Function):
    """Scaled dot-product attention with dropout of its weights (Vaswani et al. 2017, equation 1)."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        query: Float[Tensor, "batch heads tgt_len d_head"],
        key: Float[Tensor, "batch heads src_len d_head"],
        value: Float[Tensor, "batch heads src_len d_head"],
        mask: Bool[Tensor, "#batch 1 #tgt_len src_len"] | None,
        rows: PackedRows | None,
        drops: Drops,
    ) -> Float[Tensor, "batch heads tgt_len d_head"]:
        query, key, value = (
            each if each.stride(-1) == 1 else each.contiguous() for each in (query, key, value)
        )
        out = _by_position(query)
        inputs, strides = _inputs(query, key, value, mask, rows)
        _attend[_programs(query, rows)](
            *inputs, out, drops.seed, drops.p, query.size(-1) ** -0.5, *_counts(query, key),
            *_strides(query, key, value, out), *strides, **_sizes(query, key, mask, rows, drops),
        )  # fmt: skip
        ctx.rows, ctx.drops = rows, drops
        ctx.save_for_backward(query, key, value, mask)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, value, mask = ctx.saved_tensors
        gradient = gradient if gradient.stride(-1) == 1 else gradient.contiguous()
        found = _by_position(query), _by_position(key), _by_position(key)
        inputs, strides = _inputs(query, key, value, mask, ctx.rows)
        _attend_backward[_programs(query, ctx.rows)](
            gradient, *inputs, *found, ctx.drops.seed, ctx.drops.p, query.size(-1) ** -0.5,
            *_counts(query, key), *_strides(gradient, query, key, value, *found[:2]), *strides,
            **_sizes(query, key, mask, ctx.rows, ctx.drops),
        )  # fmt: skip
        return *found, None, None, None


def fits(device: torch.device, longest: int, width: int) -> bool:
    """True if the kernels can compute heads of this width, and `longest` positions, on this GPU."""
    longest = _tile(longest)
    shared = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    return longest <= LONGEST and width in WIDTHS and BYTES * longest * width <= shared


def _tile(longest: int) -> int:
    """The positions of a tile: those of queries and of keys."""
    return max(16, triton.next_power_of_2(longest))


def _programs(query: Tensor, rows: PackedRows | None) -> tuple[int]:
    count = query.size(0) if rows is None else len(rows.target_bounds) - 1
    return (count * query.size(1),)


def _by_position(like: Tensor) -> Tensor:
    """A tensor of this shape whose memory is in the order batch, position, head, as layers read it."""
    return torch.empty_like(like.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)


def _inputs(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rows: PackedRows | None
) -> tuple[tuple[Tensor | None, ...], tuple[int, int]]:
    """The inputs of a kernel, and the strides of the mask, 0 where it is broadcast."""
    bounds = (None, None) if rows is None else rows[:2]
    if mask is None:
        return (query, key, value, None, *bounds), (0, 0)
    mask = mask if mask.stride(-1) == 1 else mask.contiguous()
    strides = (0 if mask.size(axis) == 1 else mask.stride(axis) for axis in (0, 2))
    row, target = strides
    return (query, key, value, mask.view(torch.uint8), *bounds), (row, target)


def _counts(query: Tensor, key: Tensor) -> tuple[int, int, int]:
    return query.size(1), query.size(2), key.size(2)


def _strides(*tensors: Tensor) -> list[int]:
    return [tensor.stride(axis) for tensor in tensors for axis in range(3)]


def _sizes(
    query: Tensor, key: Tensor, mask: Tensor | None, rows: PackedRows | None, drops: Drops
) -> dict[str, Any]:
    longest = _tile(max(query.size(2), key.size(2)) if rows is None else rows.longest)
    return {
        "MASKED": mask is not None,
        "CAUSAL": rows is not None and rows.is_causal,
        "PACKED": rows is not None,
        "DROPS": drops.kind,
        "TARGETS": longest,
        "SOURCES": longest,
        "WIDTH": query.size(-1),
        "num_warps": 4 if longest <= 64 else 8,
    }
