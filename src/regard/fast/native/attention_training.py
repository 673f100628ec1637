"""Attention for training: many queries per head, and the gradients (attention_training.c)."""

import ctypes
from typing import Any

import torch
from jaxtyping import Bool, Float, Int16
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.fast.native.kernels import constant, kernel, threads_for

MANY_KEYS = 128


class _View(ctypes.Structure):
    _fields_ = [
        ("first", ctypes.c_void_p),
        *[(name, ctypes.c_long) for name in ("batch", "head", "position")],
    ]


class _Attention(ctypes.Structure):
    """The struct `Attention` of attention_training.c."""

    _fields_ = [
        *[(name, _View) for name in ("query", "key", "value", "out")],
        ("mask", ctypes.c_void_p),
        *[(name, ctypes.c_long) for name in ("mask_batch", "mask_head", "mask_query")],
        ("bits", ctypes.c_void_p), ("weights", ctypes.c_void_p), ("reach", ctypes.c_void_p),
        *[(name, ctypes.c_long) for name in (
            "batch", "groups", "heads_per_group", "queries", "keys", "padded_keys", "d",
        )],
        ("scale", ctypes.c_float), ("kept", ctypes.c_float),
        ("dropped", ctypes.c_int), ("threads", ctypes.c_int),
        ("scratch", ctypes.c_void_p), ("part", ctypes.c_long),
    ]  # fmt: skip


class TrainingAttention(torch.autograd.Function):
    """dropout(softmax(Q K^T / sqrt(d_head))) V, Vaswani et al. 2017, equation 1.

    Neighbouring heads share the keys of a group. Weights are kept for the backward pass; dropped ones are
    negated. A weight is dropped if its `bits` are below `dropped`; the others are multiplied by `kept`.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        query: Float[Tensor, "batch heads tgt_len d_head"],
        key: Float[Tensor, "batch kv_heads src_len d_head"],
        value: Float[Tensor, "batch kv_heads src_len d_head"],
        mask: Bool[Tensor, "#batch #heads #tgt_len src_len"] | None,
        bits: Int16[Tensor, "batch heads tgt_len src_len"] | None,
        dropped: int,
        kept: float,
    ) -> Float[Tensor, "batch heads tgt_len d_head"]:
        query, key, value = map(_beside, (query, key, value))
        batch, heads, queries, _ = query.shape
        padded_keys = _padded(key.size(2))
        out = _like(query)
        weights = query.new_empty(batch, heads, queries, padded_keys)
        ctx.dropping = dropped, kept
        reach = torch.empty(batch, heads, -(-queries // constant("tile_rows")), dtype=torch.int32)
        all_, scratch = _all(query, key, value, weights, reach, *ctx.dropping, rows=constant("tile_rows"))
        all_.out = _view(out)
        if mask is not None:
            mask = _beside(mask).expand(batch, heads, queries, key.size(2))
            all_.mask, (all_.mask_batch, all_.mask_head, all_.mask_query, _) = mask.data_ptr(), mask.stride()
        if bits is not None:
            all_.bits = bits.data_ptr()
        kernel("attention_forward")(ctypes.addressof(all_))
        del scratch
        ctx.save_for_backward(query, key, value, weights, reach)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, value, weights, reach = ctx.saved_tensors
        gradient = _beside(gradient)
        gradients = [_like(each) for each in (query, key, value)]
        all_, scratch = _all(query, key, value, weights, reach, *ctx.dropping, rows=2 * query.size(2))
        to = _Attention(*map(_view, (*gradients, gradient)))
        kernel("attention_backward")(ctypes.addressof(all_), ctypes.addressof(to))
        del scratch
        return *gradients, None, None, None, None


def _all(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: Tensor,
    reach: Tensor,
    dropped: int,
    kept: float,
    *,
    rows: int,
) -> tuple[_Attention, Tensor]:
    """The argument of both kernels, and the scratch memory of each thread, with `rows` of weights."""
    batch, heads, queries, d = query.shape
    groups, keys, padded_keys = key.size(1), key.size(2), weights.size(3)
    threads = threads_for(weights.numel() * d)
    scratch = query.new_empty(threads, (d + rows) * padded_keys)
    all_ = _Attention(
        *map(_view, (query, key, value)), weights=weights.data_ptr(), reach=reach.data_ptr(),
        batch=batch, groups=groups, heads_per_group=heads // groups, queries=queries, keys=keys,
        padded_keys=padded_keys, d=d,
        scale=d**-0.5, kept=kept, dropped=dropped, threads=threads,
        scratch=scratch.data_ptr(), part=scratch.size(1),
    )  # fmt: skip
    return all_, scratch


def _padded(keys: int) -> int:
    """The floats of a row of weights. Rows of a power of two would share few places of the cache."""
    lanes = constant("lanes")
    vectors = -(-keys // lanes)
    return (vectors + (vectors % 4 == 0 and keys >= MANY_KEYS)) * lanes


def _beside(x: Tensor) -> Tensor:
    """The tensor with contiguous rows."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _like(x: Float[Tensor, "batch heads len d_head"]) -> Float[Tensor, "batch heads len d_head"]:
    """An empty tensor of this shape, with the memory layout of the linear layers: positions before heads."""
    return torch.empty_like(x.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)


def _view(x: Tensor) -> _View:
    return _View(x.data_ptr(), *x.stride()[:3])
