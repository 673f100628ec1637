"""Attention for training: one kernel for the formula, its dropout and its gradients."""

import torch
from torch import Tensor

from regard.fast.dropout import dropout as drop
from regard.fast.dropout import dropout_bits
from regard.fast.fusible import can_be_fused, is_on_gpu
from regard.fast.gpu_training import short_attention
from regard.fast.native.attention_training import TrainingAttention
from regard.fast.native.kernels import constant
from regard.fast.native.residual import DropoutBits
from regard.fast.packed_rows import packed_attention
from regard.layers.scaled_dot_product import (
    Key,
    Mask,
    Mixed,
    PositionBias,
    Query,
    Value,
    attention,
    attention_weights,
    for_each_query_head,
)

# At most so many keys without dropout: the kernel stores the weights for the backward pass, which are small
# up to here. It leaves out what a causal mask forbids, so there it is ahead for longer: forward and backward
# pass of 16 x 6 heads of 256 positions, one core of an Intel Xeon (AVX-512), 38 ms against PyTorch's 61.
FEW_KEYS, FEW_CAUSAL_KEYS = 128, 256


def training_attention(
    query: Query,
    key: Key,
    value: Value,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    dropout: float = 0.0,
    *,
    few_keys: int = FEW_KEYS,
) -> Mixed:
    """`scaled_dot_product.attention` by the kernel if it supports the inputs, else with fast dropout.

    Without dropout the kernel gets at most `few_keys`.
    """
    packed = packed_attention(query, key, value, dropout, is_causal=False)
    if packed is not None:
        return packed
    if is_on_gpu(query) and position_bias is None:
        found = short_attention(query, key, value, mask, dropout)
        if found is not None:
            return found
    many = not dropout and key.size(2) > few_keys
    if position_bias is None and not many and _has_kernel(query, key, value, mask):
        bits = dropout_bits((*query.shape[:3], key.size(2)), dropout) if dropout else DropoutBits(None)
        return TrainingAttention.apply(query, key, value, mask, *bits)
    if dropout and query.device.type == "cpu":
        weights = drop(attention_weights(query, key, mask, position_bias), dropout)
        return weights @ for_each_query_head(value, query)
    return attention(query, key, value, mask, position_bias, dropout)


def _has_kernel(query: Query, key: Key, value: Value, mask: Mask | None) -> bool:
    """True if the kernel supports such tensors. It broadcasts only the mask."""
    if not can_be_fused(query) or not query.dtype == key.dtype == value.dtype or key.numel() == 0:
        return False
    heads = query.size(1) % key.size(1) == 0 and query.size(-1) % constant("lanes") == 0
    alike = key.shape == value.shape and (query.size(0), query.size(-1)) == (key.size(0), key.size(-1))
    return heads and alike and _is_plain_mask(mask, key)


def _is_plain_mask(mask: Tensor | None, key: Tensor) -> bool:
    return mask is None or (mask.dtype == torch.bool and mask.size(-1) == key.size(2))
