"""One decoding step of a decoder as a plan of kernels, with a cache indexed by slot.

Each row is at a position of its own.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.fast.native.attention import plan_to_memory, plan_to_self
from regard.fast.native.linear import PackedLinear
from regard.fast.native.plan import AttentionInputs, Plan, PlannedResult, UnsupportedPart
from regard.fast.native.rotary import plan_rotation
from regard.fast.native.search import SearchState, StepsTaken, run_steps
from regard.fast.position_vectors import PositionVectors, rotary_vectors
from regard.fast.row_layers import (
    row_embedding,
    row_feed_forward,
    row_linear,
    row_norm,
    row_residual,
    scale_of,
)
from regard.fast.slot_cache import SlotCache
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import Decoder

# multiplications of several steps by one call, which Ctrl-C cannot interrupt: half a second, roughly
MOST_WORK = 1 << 34
Block = Callable[[PlannedResult], PlannedResult]
# of rows, and of a residual to add
PlannedAttention = Callable[[PlannedResult, PlannedResult | None], PlannedResult]


class PlannedDecoder:
    """Ids -> inputs of the output layer: embedding, blocks and final norm, run by one call."""

    def __init__(self, stack: Decoder | DecoderOnly, output: nn.Module | PackedLinear) -> None:
        """`output`: the layer after the stack, whose weights are prefetched.

        Raises:
            UnsupportedPart: the stack has a part that no kernel computes.
        """
        enter, leave = row_embedding(stack.input), row_norm(stack.norm)
        blocks = [_block(block, number) for number, block in enumerate(stack.blocks)]
        first = stack.blocks[0].self_attention
        assert isinstance(first, SelfAttention)
        self._layers, self._features = len(blocks), first.num_kv_heads * first.d_head
        positions = stack.input.positions
        self._positional = None if positions is None else PositionVectors(positions)
        self._turns = rotary_vectors(stack.blocks)
        self._scale = stack.scale if isinstance(stack, Decoder) else 1.0
        # learned positions end somewhere, all others nowhere
        self._most: int = getattr(positions, "max_positions", sys.maxsize)

        def path(ids: PlannedResult) -> PlannedResult:
            x = enter(ids)
            for block in blocks:
                x = block(x)
            return leave(x)

        self._plan = Plan(1, path)
        self._linears = [each for each in self._plan.linears if isinstance(each, PackedLinear)]
        _prefetch([*self._linears, output])

    def __call__(self, ids: Int64[Tensor, " rows"], cache: SlotCache) -> Float[Tensor, "rows d_model"]:
        """Decode one more position of each row; its keys and values are stored in the cache."""
        x = self._plan(ids, self._inputs(cache))
        cache.advance()
        return x if self._scale == 1.0 else x * self._scale

    def run_steps(
        self, output: PackedLinear, state: SearchState, cache: SlotCache, steps: int
    ) -> StepsTaken | None:
        """Continue a search by at most `steps` steps (`run_steps`).

        The cache has then read what the search had at first, and what it gained. None if the model has no
        positions for two steps; then nothing was read.
        """
        work = state.most_rows * sum(each.shape.numel() for each in (*self._linears, output))
        if (steps := min(steps, self._most - cache.length, max(2, MOST_WORK // work))) < 2:
            return None
        if (rows := len(state.last)) < state.most_rows:
            cache.select(torch.arange(state.most_rows).clamp(max=rows - 1))
        taken = run_steps(self._plan, output, state, self._inputs(cache, steps), steps, self._scale)
        cache.advance(taken.tokens.size(1) + 1)
        if (rows := len(taken.origins)) < state.most_rows:
            cache.select(torch.arange(rows))
        return taken

    def _inputs(self, cache: SlotCache, steps: int = 1) -> AttentionInputs:
        """The inputs of `steps` steps, the first step's rows first."""
        slots = cache.make_room(self._layers, self._features, steps).flatten()
        lengths, held = (_of_steps(each, steps) for each in (cache.lengths, cache.held))
        positional = None if self._positional is None else self._positional(lengths)
        turns = None if self._turns is None else self._turns(lengths)
        own = (cache.keys, cache.values, cache.table, slots, cache.begins_of(held), held)
        if (memory := cache.memory) is None:
            return AttentionInputs(*own, positional=positional, turns=turns)
        held = (memory.layers, memory.starts, memory.lengths, memory.longest)
        return AttentionInputs(*own, *held, positional=positional, turns=turns)


def _of_steps(positions: Int64[Tensor, " rows"], steps: int) -> Int64[Tensor, " steps_x_rows"]:
    """The positions of this step, of the next one, and so on."""
    return positions if steps == 1 else (torch.arange(steps)[:, None] + positions).flatten()


def _block(block: nn.Module, number: int) -> Block:
    """The sub-layers of a block, one after the other; `number` counts the layers of the cache."""
    if type(block) not in (EncoderBlock, DecoderBlock):
        raise UnsupportedPart(f"{type(block).__name__} is not a block with kernels")
    assert isinstance(block, EncoderBlock | DecoderBlock)
    around_self, to_self = (
        row_residual(block.around_self_attention),
        _self_attention(block.self_attention, number),
    )
    around_network, network = row_residual(block.around_feed_forward), row_feed_forward(block.feed_forward)
    if isinstance(block, EncoderBlock):
        return lambda x: around_network(around_self(x, to_self), network)
    around_memory, to_memory = (
        row_residual(block.around_cross_attention),
        _cross_attention(block.cross_attention, number),
    )
    return lambda x: around_network(around_memory(around_self(x, to_self), to_memory), network)


def _self_attention(module: SelfAttention, number: int) -> PlannedAttention:
    project, output, rotary = row_linear(module.query_key_value), row_linear(module.output), module.rotary
    scale, d_head = scale_of(module), module.d_head
    query_end, key_end = module.num_heads * d_head, (module.num_heads + module.num_kv_heads) * d_head
    norms = (module.query_norm, module.key_norm)
    query_norm, key_norm = (None if each is None else row_norm(each) for each in norms)

    def attend(x: PlannedResult, residual: PlannedResult | None) -> PlannedResult:
        heads = project(x)
        both, value = heads[:, :key_end], heads[:, key_end:]
        if query_norm is not None and key_norm is not None:
            query, key = query_norm(heads[:, :query_end]), key_norm(heads[:, query_end:key_end])
            if rotary is not None:
                query, key = plan_rotation(query, d_head), plan_rotation(key, d_head)
        else:
            both = both if rotary is None else plan_rotation(both, d_head)
            query, key = both[:, :query_end], both[:, query_end:]
        return output(plan_to_self(query, key, value, number, d_head, scale), residual)

    return attend


def _cross_attention(module: MultiHeadAttention, number: int) -> PlannedAttention:
    project, output = row_linear(module.query), row_linear(module.output)
    scale, d_head, groups = scale_of(module), module.d_head, module.num_kv_heads

    def attend(x: PlannedResult, residual: PlannedResult | None) -> PlannedResult:
        return output(plan_to_memory(project(x), number, groups, d_head, scale), residual)

    return attend


def _prefetch(layers: Sequence[object]) -> None:
    """Set which layer's weights each linear layer prefetches: the next one's; the last, the first one's."""
    linears = [each for each in layers if isinstance(each, PackedLinear)]
    for one, other in pairwise([*linears, *linears[:1]]):
        one.prefetch(other)
