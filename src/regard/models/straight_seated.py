"""A decoder's blocks in a straight line of kernels, over a cache that seats its rows.

They are read once, into a plan that is run by one call; where something in them is no kernel, one kernel is
called after the other.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.positions import RotaryPositions
from regard.layers.seated_cache import SeatedCache
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import Decoder
from regard.models.straight_attention import scale_of
from regard.models.straight_linear import AddingMap, entering, linear, norm
from regard.native.attention import attend_to_memory, attend_to_self, plan_to_memory, plan_to_self
from regard.native.linear import PackedLinear
from regard.native.plan import Plan, Rows, Seen, Unplanned
from regard.native.rotary import rotate

Look = Callable[[Rows, Rows, SeatedCache | None, int], Rows]  # no cache: a plan is made


def self_attention(module: SelfAttention) -> Look:
    project, output, turn = linear(module.query_key_value), linear(module.output), _turning(module)
    scale, d_head = scale_of(module), module.d_head
    last_query, last_key = module.num_heads * d_head, (module.num_heads + module.num_kv_heads) * d_head

    def look(x: Rows, plus: Rows, cache: SeatedCache | None, number: int) -> Rows:
        all_heads = project(x)
        turned, value = turn(all_heads[:, :last_key], cache), all_heads[:, last_key:]
        query, key = turned[:, :last_query], turned[:, last_query:]
        if cache is None:
            mixed = plan_to_self(query, key, value, number, d_head, scale)
        else:
            mixed = attend_to_self(
                query, key, value, cache.keys[number], cache.values[number], cache.table, cache.length,
                d_head, scale,
            )  # fmt: skip
        return output(mixed, plus)

    return look


def cross_attention(module: MultiHeadAttention) -> Look:
    project, output = linear(module.query), linear(module.output)
    scale, d_head, groups = scale_of(module), module.d_head, module.num_kv_heads

    def look(x: Rows, plus: Rows, cache: SeatedCache | None, number: int) -> Rows:
        query = project(x)
        if cache is None:
            mixed = plan_to_memory(query, number, groups, d_head, scale)
        else:
            seen = cache.memory
            assert seen is not None
            mixed = attend_to_memory(
                query, *seen.layers[number], seen.starts, seen.lengths, seen.longest, d_head, scale
            )
        return output(mixed, plus)

    return look


def _turning(module: SelfAttention) -> Callable[[Rows, SeatedCache | None], Rows]:
    """What is done to queries and keys, beside each other, before they meet."""
    heads, d_head, rotary = module.num_heads, module.d_head, module.rotary
    norms = (module.query_norm, module.key_norm)
    query_norm, key_norm = (None if each is None else norm(each) for each in norms)

    def turn(x: Rows, cache: SeatedCache | None) -> Rows:
        if query_norm is not None and key_norm is not None:
            each = x.reshape(len(x), -1, d_head)
            queries, keys = query_norm(each[:, :heads].flatten(0, 1)), key_norm(each[:, heads:].flatten(0, 1))
            x = torch.cat([part.view(len(x), -1) for part in (queries, keys)], dim=1)
        if rotary is None:
            return x
        turns = (None, None) if cache is None else rotary.turns(cache.length, 1)
        return rotate(x, *turns, d_head)

    return turn


class Read:
    """From ids to what goes to the output: embedding, blocks, and the norm behind them."""

    def __init__(
        self, stack: Decoder | DecoderOnly, blocks: Sequence[Callable[..., Rows]], output: AddingMap
    ) -> None:
        """`blocks`: those of the stack in a straight line. `output`: what comes next."""
        self._enter, self._blocks, self._leave = entering(stack.input), blocks, norm(stack.norm)
        first = cast(SelfAttention, stack.blocks[0].self_attention)
        self._features = first.num_kv_heads * first.d_head
        self._positions, self._rotary = stack.input.positions, _rotary(stack.blocks)
        self._plan: Plan | None = None
        if _turn_alike(stack.blocks):
            with suppress(Unplanned):
                self._plan = Plan(1, lambda ids: self._through(ids, None))
                _chain([*self._plan.linears, output])

    def __call__(self, ids: Int64[Tensor, " rows"], cache: SeatedCache) -> Float[Tensor, "rows d_model"]:
        """Reads the position and keeps what is made of it."""
        cache.take_seats(len(ids), len(self._blocks), self._features)
        x = self._through(ids, cache) if self._plan is None else self._plan(ids, self._seen(cache))
        cache.length += 1
        return x

    def _through(self, ids: Rows, cache: SeatedCache | None) -> Rows:
        x = self._enter(ids, None if cache is None else cache.length)
        for number, block in enumerate(self._blocks):
            x = block(x, cache, number)
        return self._leave(x)

    def _seen(self, cache: SeatedCache) -> Seen:
        plus = None if self._positions is None else self._positions(cache.length, 1)
        turns = None if self._rotary is None else self._rotary.turns(cache.length, 1)
        held, memory = (cache.keys, cache.values, cache.table), cache.memory
        if memory is None:
            return Seen(cache.length, *held, plus=plus, turns=turns)
        return Seen(
            *(cache.length, *held, memory.layers, memory.starts, memory.lengths, memory.longest),
            plus=plus, turns=turns,
        )  # fmt: skip


def _chain(maps: Sequence[AddingMap]) -> None:
    """Tell each map which comes next, step after step."""
    linears = [each for each in maps if isinstance(each, PackedLinear)]
    for one, other in zip(linears, linears[1:] + linears[:1], strict=True):
        one.before(other)


def _rotary(blocks: nn.ModuleList) -> RotaryPositions | None:
    """What turns heads in any of them."""
    return next((each for each in blocks.modules() if isinstance(each, RotaryPositions)), None)


def _turn_alike(blocks: nn.ModuleList) -> bool:
    """Whether a plan, which has one pair of turns, has those of all."""
    turns = {(each.base, each.d_head) for each in blocks.modules() if isinstance(each, RotaryPositions)}
    return len(turns) < 2
