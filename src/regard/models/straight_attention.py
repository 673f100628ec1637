"""Attention of one new position a row, as a step in a straight line has it."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.cache import DecoderCache, KeyValue, KeyValueCache, StackCache
from regard.layers.seated_cache import SeatedCache
from regard.models.straight_linear import linear
from regard.native.attention import attend_to_memory, attend_to_self

Cache = StackCache | DecoderCache | SeatedCache
Look = Callable[[Tensor, Tensor | None, Cache, int], Tensor]  # rows, what is added, the cache, which layer


def self_attention(module: SelfAttention) -> Look:
    """With a cache that moves its rows, or with one that seats them."""
    project, output, mix = projection(module), linear(module.output), _mixing(module)
    rotary, scale = module.rotary, scale_of(module)

    def look(x: Tensor, plus: Tensor | None, cache: Cache, number: int) -> Tensor:
        turned, value = project(x)
        held = cache if isinstance(cache, SeatedCache) else _layers(cache)[number]
        if rotary is not None:
            turned = rotary(turned, held.length)
        query, key = turned[:, : module.num_heads], turned[:, module.num_heads :]
        if isinstance(held, SeatedCache):
            mixed = attend_to_self(
                query.flatten(1), key.flatten(1), value.flatten(1),
                held.keys[number], held.values[number], held.table, held.length, module.d_head, scale,
            )  # fmt: skip
        else:
            mixed = mix(query, held.append(key, value), None)
        return output(mixed, plus)

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
    scale, d_head = scale_of(module), module.d_head

    def look(x: Tensor, plus: Tensor | None, cache: Cache, number: int) -> Tensor:
        assert not isinstance(cache, StackCache)
        query = project(x)
        if isinstance(cache, SeatedCache):
            seen = cache.memory
            assert seen is not None
            mixed = attend_to_memory(
                query, *seen.layers[number], seen.starts, seen.lengths, seen.longest, d_head, scale
            )
        else:
            mixed = mix(query, cache.memories[number], cache.hidden)
        return output(mixed, plus)

    return look


def _layers(cache: StackCache | DecoderCache) -> list[KeyValueCache]:
    return cache.layers if isinstance(cache, StackCache) else cache.targets


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
