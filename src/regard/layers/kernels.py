"""softmax(QK^T / sqrt(d_head)) V: the readable reference, and the fast form tested against it.

Every kernel takes (query, key, value, mask, position_bias, dropout) and can stand in the `attend` of an
attention. `mask` is boolean, True = may look; `position_bias` is added to the scores; a query that may
look nowhere gets zeros. Fewer heads in key and value than in query are shared by groups of neighbouring
query heads (Ainslie et al. 2023).
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.layers.dropout import drawn
from regard.layers.dropout import dropout as drop
from regard.layers.fusing import can_be_fused
from regard.native.around import Drawn
from regard.native.attention_training import TrainingAttention
from regard.native.kernels import constant

FEW_KEYS = 128  # so that weights, which `native` keeps for the gradients, take no more room than the rest

Query = Float[Tensor, "batch heads tgt_len d_head"]
Key = Float[Tensor, "batch kv_heads src_len d_head"]
Value = Float[Tensor, "batch kv_heads src_len d_value"]
Mask = Bool[Tensor, "#batch #heads #tgt_len src_len"]
PositionBias = Float[Tensor, "#batch #heads #tgt_len src_len"]
Mixed = Float[Tensor, "batch heads tgt_len d_value"]


def attention_weights(
    query: Query, key: Key, mask: Mask | None = None, position_bias: PositionBias | None = None
) -> Float[Tensor, "batch heads tgt_len src_len"]:
    """How much each target position looks at each source position.

    Vaswani et al. 2017, equation 1. A position that may look nowhere gets zeros, not NaN.
    """
    return masked_softmax(attention_scores(query, key, position_bias), mask)


def attention_scores(
    query: Query, key: Key, position_bias: PositionBias | None = None
) -> Float[Tensor, "batch heads tgt_len src_len"]:
    """How well each query and each key go together, before any mask."""
    query = query / math.sqrt(query.size(-1))
    scores = query @ _for_each_query_head(key, query).transpose(-2, -1)
    return scores if position_bias is None else scores + position_bias


def masked_softmax(
    scores: Float[Tensor, "*rows src_len"], mask: Bool[Tensor, "*#rows src_len"] | None = None
) -> Float[Tensor, "*rows src_len"]:
    """Shares of 1 where `mask` is True; zeros in a row that is masked whole."""
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.where(mask, -torch.inf).softmax(dim=-1)
    return weights.where(mask, 0.0)  # a row masked whole is 0/0


def plain_attention(
    query: Query,
    key: Key,
    value: Value,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    dropout: float = 0.0,
) -> Mixed:
    """The reference: weights, then their mean of the values. `dropout` drops weights."""
    weights = attention_weights(query, key, mask, position_bias)
    if dropout:
        weights = drop(weights, dropout)
    return weights @ _for_each_query_head(value, query)


def fused_attention(
    query: Query,
    key: Key,
    value: Value,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    dropout: float = 0.0,
) -> Mixed:
    """PyTorch's kernels: the weights are never written to memory."""
    bias = mask
    if position_bias is not None:
        bias = position_bias if mask is None else position_bias.where(mask, -torch.inf)
    return F.scaled_dot_product_attention(
        query, key, value, bias, dropout, enable_gqa=key.size(1) != query.size(1)
    )


def attention(
    query: Query,
    key: Key,
    value: Value,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    dropout: float = 0.0,
) -> Mixed:
    """The fused kernel, but the plain one where there is a single query, and for dropout on a CPU.

    One query has nothing to fuse, and the last bits of the fused kernel depend on how many queries and
    rows there are: a sentence must be decoded the same alone and in a batch. With dropout PyTorch fuses
    nothing on a CPU, and draws slowly. In training `native` has a kernel for that, and for few keys.
    """
    if position_bias is None and _can_be_native(query, key, value, mask, dropout):
        chosen = drawn((*query.shape[:3], key.size(2)), dropout) if dropout else Drawn(None)
        return TrainingAttention.apply(query, key, value, mask, *chosen)
    plain = query.size(2) == 1 or (dropout and query.device.type == "cpu")
    kernel = plain_attention if plain else fused_attention
    return kernel(query, key, value, mask, position_bias, dropout)


def _can_be_native(query: Query, key: Key, value: Value, mask: Mask | None, dropout: float) -> bool:
    """Whether `native` has a kernel for such tensors, and it gains. It broadcasts nothing but the mask."""
    if not can_be_fused(query) or not query.dtype == key.dtype == value.dtype or key.numel() == 0:
        return False
    if not dropout and key.size(2) > FEW_KEYS:
        return False
    heads = query.size(1) % key.size(1) == 0 and query.size(-1) % constant("lanes") == 0
    alike = key.shape == value.shape and (query.size(0), query.size(-1)) == (key.size(0), key.size(-1))
    return heads and alike and (mask is None or (mask.dtype == torch.bool and mask.size(-1) == key.size(2)))


def _for_each_query_head(
    shared: Float[Tensor, "batch kv_heads src_len width"], query: Query
) -> Float[Tensor, "batch heads src_len width"]:
    """Keys or values, those of a shared head repeated for each query head of its group."""
    group = query.size(1) // shared.size(1)
    return shared if group == 1 else shared.repeat_interleave(group, dim=1)
