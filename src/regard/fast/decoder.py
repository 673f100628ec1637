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

MAX_MULTIPLICATIONS = 1 << 34  # of one call: about half a second, in which Ctrl-C has no effect
PlannedBlock = Callable[[PlannedResult], PlannedResult]
PlannedAttention = Callable[[PlannedResult, PlannedResult | None], PlannedResult]  # rows, residual to add


class PlannedDecoder:
    """Ids -> inputs of the output layer: embedding, blocks and final norm, run by one call."""

    def __init__(self, stack: Decoder | DecoderOnly, output: nn.Module | PackedLinear) -> None:
        """`output`: the layer after the stack, whose weights are prefetched.

        Raises:
            UnsupportedPart: the stack has a part that no kernel computes.
        """
        embed, final_norm = row_embedding(stack.input), row_norm(stack.norm)
        blocks = [_block(block, number) for number, block in enumerate(stack.blocks)]
        first = stack.blocks[0].self_attention
        assert isinstance(first, SelfAttention)
        self._layers, self._features = len(blocks), first.num_kv_heads * first.d_head
        positions = stack.input.positions
        self._positional = None if positions is None else PositionVectors(positions)
        self._rotary = rotary_vectors(stack.blocks)
        self._scale = stack.scale if isinstance(stack, Decoder) else 1.0
        self._max_positions: int = getattr(positions, "max_positions", sys.maxsize)  # of learned positions

        def path(ids: PlannedResult) -> PlannedResult:
            x = embed(ids)
            for block in blocks:
                x = block(x)
            return final_norm(x)

        self._plan = Plan(1, path)
        self._linears = [each for each in self._plan.linears if isinstance(each, PackedLinear)]
        _prefetch_next([*self._linears, output] if isinstance(output, PackedLinear) else self._linears)

    def __call__(self, ids: Int64[Tensor, " rows"], cache: SlotCache) -> Float[Tensor, "rows d_model"]:
        """Decode one more position of each row; its keys and values are stored in the cache."""
        x = self._plan(ids, self._inputs(cache))
        cache.advance()
        return x if self._scale == 1.0 else x * self._scale

    def run_steps(
        self, output: PackedLinear, state: SearchState, cache: SlotCache, steps: int
    ) -> StepsTaken | None:
        """Continue a search by at most `steps` steps in one call; see `native.search.run_steps`.

        The cache then holds the last tokens of `state` and those that its hypotheses gained. None if the
        model has no positions for two steps, or they would take too long; then the cache is as it was.
        """
        per_step = state.most_rows * sum(each.shape.numel() for each in (*self._linears, output))
        steps = min(steps, self._max_positions - cache.length, MAX_MULTIPLICATIONS // per_step)
        if steps < 2:
            return None
        if (rows := len(state.last)) < state.most_rows:  # fill up with copies of the last row
            cache.select(torch.arange(state.most_rows).clamp(max=rows - 1))
        taken = run_steps(self._plan, output, state, self._inputs(cache, steps), steps, self._scale)
        cache.advance(taken.tokens.size(1) + 1)
        if (rows := len(taken.origins)) < state.most_rows:
            cache.select(taken.origins, in_table=torch.arange(rows))
        return taken

    def _inputs(self, cache: SlotCache, steps: int = 1) -> AttentionInputs:
        """The inputs of `steps` steps, the first step's rows first; those of several may be changed."""
        slots = cache.make_room(self._layers, self._features, steps).flatten()
        lengths, stored = (_of_steps(each, steps) for each in (cache.lengths, cache.held))
        memory = cache.memory
        return AttentionInputs(
            keys=cache.keys,
            values=cache.values,
            table=cache.table,
            slots=slots,
            begins=cache.begins_of(stored),
            positions=stored,
            memory=() if memory is None else memory.layers,
            starts=None if memory is None else _own(memory.starts, steps),
            lengths=None if memory is None else _own(memory.lengths, steps),
            longest=0 if memory is None else memory.longest,
            positional=None if self._positional is None else self._positional(lengths),
            rotary=None if self._rotary is None else self._rotary(lengths),
        )


def _of_steps(positions: Int64[Tensor, " rows"], steps: int) -> Int64[Tensor, " steps_x_rows"]:
    """The positions of this step, of the next one, and so on."""
    return positions if steps == 1 else (torch.arange(steps)[:, None] + positions).flatten()


def _own(values: Int64[Tensor, " rows"], steps: int) -> Int64[Tensor, " rows"]:
    """These values; a copy for several steps."""
    return values if steps == 1 else values.clone()


def _block(block: nn.Module, number: int) -> PlannedBlock:
    """The sub-layers of a block, one after the other; `number` counts the layers of the cache."""
    if type(block) not in (EncoderBlock, DecoderBlock):
        raise UnsupportedPart(f"{type(block).__name__} is not a block with kernels")
    assert isinstance(block, EncoderBlock | DecoderBlock)
    add_self = row_residual(block.around_self_attention)
    add_network = row_residual(block.around_feed_forward)
    to_self, network = _self_attention(block.self_attention, number), row_feed_forward(block.feed_forward)
    if isinstance(block, EncoderBlock):
        return lambda x: add_network(add_self(x, to_self), network)
    add_memory = row_residual(block.around_cross_attention)
    to_memory = _cross_attention(block.cross_attention, number)
    return lambda x: add_network(add_memory(add_self(x, to_self), to_memory), network)


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


def _prefetch_next(linears: Sequence[PackedLinear]) -> None:
    """Let each linear layer prefetch the weights of the next one, and the last those of the first."""
    for layer, following in pairwise([*linears, *linears[:1]]):
        layer.prefetch(following)
