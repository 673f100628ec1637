"""Prefilling prompts: with how many rows, and layer by layer, so that others can step in between."""

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.decoding.rows import round_up
from regard.decoding.step import ROW_MULTIPLE, Parts
from regard.layers.cache import StackCache
from regard.layers.masks import causal_mask, window_mask
from regard.models.decoder_only import DecoderOnly


def prefill_by_layer(model: DecoderOnly, ids: Int64[Tensor, "rows len"], cache: StackCache) -> Parts:
    """`model.states(ids, cache=cache)` with an empty cache, in as many parts as there are layers.

    For a model with a fast decoding step, which has no bias of positions and no method that is replaced.
    """
    length, masks = ids.size(1), dict[int | None, Tensor]()
    x = model.input(ids)
    for block, block_cache, window in zip(model.blocks, cache.layers, model.config.windows, strict=True):
        if window not in masks:
            masks[window] = (
                causal_mask(length, length, device=ids.device)
                if window is None
                else window_mask(length, window, length, device=ids.device)
            )
        x = block(x, masks[window], None, block_cache)
        yield


def in_fixed_shape(ids: Int64[Tensor, "rows len"]) -> Int64[Tensor, "more len"]:
    """These ids, padded with rows to a multiple for which each row has the same bits in any batch.

    Linear layers compute all tokens as rows of one product, so their number becomes a multiple of
    ROW_MULTIPLE. The rows are repeated for that.
    """
    if ids.size(1) % ROW_MULTIPLE:
        ids = ids[torch.arange(round_up(len(ids), ROW_MULTIPLE)) % len(ids)]
    return ids
