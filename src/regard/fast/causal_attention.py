"""Causal self-attention in training, which leaves out what the mask forbids.

PyTorch's flash attention (Dao et al. 2022) takes no mask on a GPU, and with a mask computes everything on a
CPU, but knows causal attention by name. The models give a mask, so the attentions whose masks are always
causal are found in the model.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn

from regard.fast.gpu_training import short_attention
from regard.fast.packed_rows import packed_attention
from regard.fast.training_attention import FEW_CAUSAL_KEYS, training_attention
from regard.fast.unchanged import class_is_unchanged
from regard.layers.masks import causal_mask
from regard.layers.scaled_dot_product import Key, Mask, Mixed, PositionBias, Query, Value
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import Decoder, EncoderDecoder


def causal_attentions(model: nn.Module) -> Iterator[nn.Module]:
    """The self-attentions that get a causal mask of shape [1, 1, length, length] and no other of that shape.

    The mask of several documents in a row has a first axis of rows, so it is not of that shape, unless the
    batch has one row; `causal_training_attention` looks at that.
    """
    if (
        type(model) is EncoderDecoder
        and class_is_unchanged(EncoderDecoder)
        and type(model.decoder) is Decoder
    ):
        blocks = model.decoder.blocks
    elif type(model) is DecoderOnly and class_is_unchanged(DecoderOnly):
        blocks = [block for block in model.blocks if getattr(block, "window", None) is None]
    else:
        return
    for block in blocks:
        if isinstance(attention := getattr(block, "self_attention", None), nn.Module):
            yield attention


def causal_training_attention(
    query: Query,
    key: Key,
    value: Value,
    mask: Mask | None = None,
    position_bias: PositionBias | None = None,
    dropout: float = 0.0,
) -> Mixed:
    """`training_attention` for attentions whose masks are causal; long ones do not use the mask.

    On a CPU those are longer than FEW_CAUSAL_KEYS and without dropout, which PyTorch's kernel there lacks.
    """
    packed = packed_attention(query, key, value, dropout, is_causal=True)
    if packed is not None:
        return packed
    has_kernel = query.device.type != "cpu" or (query.size(2) > FEW_CAUSAL_KEYS and not dropout)
    if not has_kernel or mask is None or position_bias is not None or not _is_causal(mask, query, key):
        return training_attention(query, key, value, mask, position_bias, dropout, few_keys=FEW_CAUSAL_KEYS)
    found = short_attention(query, key, value, mask, dropout)
    if found is not None:
        return found
    grouped = key.size(1) != query.size(1)
    return F.scaled_dot_product_attention(
        query, key, value, dropout_p=dropout, is_causal=True, enable_gqa=grouped
    )


def _is_causal(mask: Mask, query: Query, key: Key) -> bool:
    """True if this mask is a causal one. Of a GPU's only the shape is looked at, without waiting for it."""
    length = query.size(2)
    if tuple(mask.shape) != (1, 1, length, length) or key.size(2) != length:
        return False
    if mask.device.type == "cpu":  # a batch of one row may have several documents
        return torch.equal(mask, causal_mask(length))
    return query.size(0) > 1
