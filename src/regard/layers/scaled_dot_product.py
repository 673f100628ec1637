"""Scaled dot-product attention, softmax(QK^T / sqrt(d_head)) V: plain formulas, PyTorch's kernel.

Every function of the signature (query, key, value, mask, position_bias, dropout) can be the `attend` of an
attention. `mask` is boolean, True = may attend; `position_bias` is added to the scores; a query that may
attend to nothing gets zeros. If key and value have fewer heads than the query, each of their heads is shared
by a group of neighbouring query heads (Ainslie et al. 2023).
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.layers.softcapped import softcapped

Query = Float[Tensor, "batch heads tgt_len d_head"]
Key = Float[Tensor, "batch kv_heads src_len d_head"]
Value = Float[Tensor, "batch kv_heads src_len d_value"]
Mask = Bool[Tensor, "#batch #heads #tgt_len src_len"]
PositionBias = Float[Tensor, "#batch #heads #tgt_len src_len"]
Mixed = Float[Tensor, "batch heads tgt_len d_value"]


def attention_weights(
    query: Query,
    key: Key,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    softcap: float | None = None,
) -> Float[Tensor, "batch heads tgt_len src_len"]:
    """The weight of each source position for each target position (Vaswani et al. 2017, equation 1).

    Each row is softmax(Q K^T / sqrt(d_head)) and sums to 1. `mask` is boolean, and True means "may attend":
    where it is False, the weight is 0. None masks nothing. A row that may attend to nothing is all zeros, not
    NaN. `position_bias` is added to the scores before the softmax. Both broadcast to [batch, heads, tgt_len,
    src_len]. `key` may have fewer heads than `query`, if their number divides that of `query`.

    Raises:
        ValueError: the mask is not boolean.
    """
    refuse_other_mask(mask)
    return masked_softmax(attention_scores(query, key, position_bias, softcap), mask)


def refuse_other_mask(mask: Tensor | None) -> None:
    """Raise a ValueError if this is not a boolean mask: PyTorch's kernel adds numbers to the scores."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(
            f"the mask has dtype {mask.dtype}, not torch.bool (True: may attend); what is added to scores is"
            " position_bias"
        )


def attention_scores(
    query: Query, key: Key, position_bias: PositionBias | None = None, softcap: float | None = None
) -> Float[Tensor, "batch heads tgt_len src_len"]:
    """Q K^T / sqrt(d_head), soft-capped at `softcap` if given, plus `position_bias`; before any mask."""
    query = query / math.sqrt(query.size(-1))
    scores = query @ for_each_query_head(key, query).transpose(-2, -1)
    if softcap is not None:
        scores = softcapped(scores, softcap)
    return scores if position_bias is None else scores + position_bias


def masked_softmax(
    scores: Float[Tensor, "*rows src_len"], mask: Bool[Tensor, "*#rows src_len"] | None = None
) -> Float[Tensor, "*rows src_len"]:
    """The softmax of the scores where `mask` is True, 0 elsewhere; a fully masked row is all zeros."""
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.where(mask, -torch.inf).softmax(dim=-1)
    return weights.where(mask, 0.0)  # a fully masked row is 0/0


def plain_attention(
    query: Query,
    key: Key,
    value: Value,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
) -> Mixed:
    """The reference: attention weights, then the weighted mean of the values. `dropout` drops weights."""
    weights = attention_weights(query, key, mask, position_bias, softcap)
    if dropout:
        weights = F.dropout(weights, dropout)
    return weights @ for_each_query_head(value, query)


@dataclass(frozen=True)
class SoftcappedAttention:
    """`plain_attention` with soft-capped scores, which PyTorch's kernel does not have."""

    cap: float

    def __call__(
        self,
        query: Query,
        key: Key,
        value: Value,
        mask: Mask | None = None,
        position_bias: PositionBias | None = None,
        dropout: float = 0.0,
    ) -> Mixed:
        return plain_attention(query, key, value, mask, position_bias, dropout, softcap=self.cap)


def fused_attention(
    query: Query,
    key: Key,
    value: Value,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    dropout: float = 0.0,
) -> Mixed:
    """PyTorch's kernels (`F.scaled_dot_product_attention`), which do not store the attention weights."""
    bias = mask
    if position_bias is not None:
        bias = position_bias if mask is None else position_bias.where(mask, -torch.inf)
    mixed = F.scaled_dot_product_attention(
        query, key, value, bias, dropout, enable_gqa=key.size(1) != query.size(1)
    )
    if mask is not None and query.device.type == "cuda":  # cuDNN's kernel averages all values instead
        mixed = mixed.where(mask.any(dim=-1, keepdim=True), 0.0)
    return mixed


def attention(
    query: Query,
    key: Key,
    value: Value,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    dropout: float = 0.0,
) -> Mixed:
    """PyTorch's kernel; the plain formulas for a single query, and for dropout on a CPU.

    The last bits of PyTorch's outputs depend on the number of queries and rows, but the decoding of a
    sentence, one query at a time, must not depend on its batch. With dropout PyTorch has no CPU kernel.
    """
    plain = query.size(2) == 1 or (dropout and query.device.type == "cpu")
    kernel = plain_attention if plain else fused_attention
    return kernel(query, key, value, mask, position_bias, dropout)


def for_each_query_head(
    shared: Float[Tensor, "batch kv_heads src_len width"], query: Query
) -> Float[Tensor, "batch heads src_len width"]:
    """Keys or values, each head repeated for all query heads of its group."""
    group = query.size(1) // shared.size(1)
    return shared if group == 1 else shared.repeat_interleave(group, dim=1)
