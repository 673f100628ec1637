"""Attention of one new position a row, as a step in a straight line has it without kernels."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.cache import DecoderCache, KeyValue, StackCache
from regard.models.straight_linear import linear

Cache = StackCache | DecoderCache
Look = Callable[[Tensor, Tensor | None, Cache, int], Tensor]  # rows, what is added, the cache, which layer


def self_attention(module: SelfAttention) -> Look:
    """With a cache that moves its rows."""
    project, output, mix, rotary = projection(module), linear(module.output), _mixing(module), module.rotary

    def look(x: Tensor, plus: Tensor | None, cache: Cache, number: int) -> Tensor:
        turned, value = project(x)
        held = (cache.layers if isinstance(cache, StackCache) else cache.targets)[number]
        if rotary is not None:
            turned = rotary(turned, held.length)
        query, key = turned[:, : module.num_heads], turned[:, module.num_heads :]
        return output(mix(query, held.append(key, value), None), plus)

    return look


def projection(module: SelfAttention) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """From rows to queries and keys ([rows, heads + kv_heads, 1, d_head]), not yet turned, and to values."""
    project, heads, groups = linear(module.query_key_value), module.num_heads, module.num_kv_heads
    query_norm, key_norm = module.query_norm, module.key_norm

    def parts(x: Tensor) -> tuple[Tensor, Tensor]:
        all_heads = project(x).view(-1, heads + 2 * groups, 1, module.d_head)
        turned, value = all_heads[:, : heads + groups], all_heads[:, heads + groups :]
        if query_norm is not None and key_norm is not None:
            turned = torch.cat([query_norm(turned[:, :heads]), key_norm(turned[:, heads:])], dim=1)
        return turned, value

    return parts


def cross_attention(module: MultiHeadAttention) -> Look:
    """With the memory that the cache has."""
    project, output, mix = linear(module.query), linear(module.output), _mixing(module)

    def look(x: Tensor, plus: Tensor | None, cache: Cache, number: int) -> Tensor:
        assert isinstance(cache, DecoderCache)
        return output(mix(project(x), cache.memories[number], cache.hidden), plus)

    return look


def scale_of(module: MultiHeadAttention) -> float:
    return module.d_head**-0.5 if module.scale is None else module.scale


def _mixing(module: MultiHeadAttention) -> Callable[[Tensor, KeyValue, Tensor | None], Tensor]:
    """One query a head with all keys: the heads that share keys are a matrix of queries."""
    groups, share, d_head = module.num_kv_heads, module.num_heads // module.num_kv_heads, module.d_head
    scale = scale_of(module)

    def mix(query: Tensor, seen: KeyValue, hidden: Tensor | None) -> Tensor:
        query = query.reshape(len(query), groups, share, d_head)
        scores = (query @ seen.key.transpose(-2, -1)).mul_(scale)
        weights = (scores if hidden is None else scores.add_(hidden)).softmax(dim=-1)
        return (weights @ seen.value).view(len(query), -1)

    return mix
