"""One more token of each row with a `StaticCache`: the operations of a CUDA graph.

All shapes are those of the part of the memory that is read, and all that changes from step to step (ids,
lengths, keys and values) is read from the memory, so that the same operations can be replayed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.fast.one_query import has_kernel, one_query_attention, scale_of
from regard.fast.static_cache import Size, StaticMemory
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock, ParallelBlock
from regard.layers.positions import RotaryPositions
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import Decoder
from regard.models.parts import InputEmbedding

SOURCE = "source"
Vectors = Float[Tensor, "positions features"]


@dataclass(frozen=True)
class Tables:
    """The vectors of all positions that a step may reach: those that are added, and those that rotate."""

    added: Vectors | None
    rotary: dict[int, tuple[Vectors, Vectors]]  # by rotary module: sines and cosines

    @classmethod
    def of(cls, entry: InputEmbedding, blocks: Sequence[nn.Module], positions: int) -> "Tables":
        """The tables of a stack for `positions` positions."""
        added = None if entry.positions is None else entry.positions(0, positions).detach()
        rotary = [each for block in blocks for each in block.modules() if isinstance(each, RotaryPositions)]
        return cls(added, {id(each): each.sines_and_cosines(0, positions) for each in rotary})


class StaticDecoder:
    """The stack of a decoder and its output layer, for one token of each row at a time."""

    def __init__(self, stack: Decoder | DecoderOnly, output: nn.Module) -> None:
        self._input: InputEmbedding = stack.input
        self._blocks = cast(Sequence[EncoderBlock | DecoderBlock], list(stack.blocks))
        self._norm, self._output = stack.norm, output
        self._scale = stack.scale if isinstance(stack, Decoder) else 1.0
        self._tables: dict[int, Tables] = {}

    def __call__(self, memory: StaticMemory, size: Size) -> Float[Tensor, "places vocab"]:
        """The logits after the last ids of the first `size.places` places, in float32.

        Their keys and values are stored, and the lengths grow by one. A place that is free may be as long as
        the part that is read; it is computed at the last position.
        """
        tables = self._tables_of(memory.size.positions)
        lengths = memory.lengths[: size.places]
        at = lengths.clamp(max=size.positions - 1)
        x = self._input.embedding(memory.asked[0, : size.places, None])
        if tables.added is not None:
            x = x + F.embedding(at, tables.added)[:, None]
        x = self._input.norm(x)
        step = Step(memory, size, at, tables)
        for number, block in enumerate(self._blocks):
            x = step.block(block, number, x)
        x = self._norm(x) if self._scale == 1.0 else self._norm(x) * self._scale
        lengths += 1
        return self._output(x)[:, 0].float()

    def _tables_of(self, positions: int) -> Tables:
        if positions not in self._tables:
            self._tables[positions] = Tables.of(self._input, self._blocks, positions)
        return self._tables[positions]


class Step:
    """What the blocks share in one step: masks, the rotary angles of this position, where keys are stored."""

    def __init__(
        self, memory: StaticMemory, size: Size, at: Int64[Tensor, " places"], tables: Tables
    ) -> None:
        self._memory, self._size = memory, size
        device = at.device
        self._positions = torch.arange(size.positions, device=device)
        self._at = at
        self._masks: dict[int | str | None, Tensor] = {}  # by window, and SOURCE
        self._rotary = {
            key: (F.embedding(at, sine)[:, None, None], F.embedding(at, cosine)[:, None, None])
            for key, (sine, cosine) in tables.rotary.items()
        }
        heads = torch.arange(memory.targets.size(3), device=device)
        places = torch.arange(size.places, device=device)
        sides = torch.arange(2, device=device)
        self._where = (sides[:, None, None], places[:, None], heads, at[:, None])
        if size.source:
            self._source_lengths = memory.source_lengths[: size.places]

    def block(self, block: EncoderBlock | DecoderBlock, number: int, x: Tensor) -> Tensor:
        """The block with this number, for one position of each place."""
        window = block.window if isinstance(block, EncoderBlock) else None
        mixed = block.around_self_attention(x, partial(self._to_self, block.self_attention, number, window))
        if isinstance(block, ParallelBlock):
            return block.around_feed_forward(x, block.feed_forward, mixed)
        if isinstance(block, DecoderBlock):
            mixed = block.around_cross_attention(
                mixed, partial(self._to_source, block.cross_attention, number)
            )
        return block.around_feed_forward(mixed, block.feed_forward)

    def _to_self(self, module: SelfAttention, number: int, window: int | None, x: Tensor) -> Tensor:
        projected = module.query_key_value(x).split(module.query_key_value.widths, dim=-1)
        query, key, value = (_heads(part, module.d_head) for part in projected)
        if module.query_norm is not None and module.key_norm is not None:
            query, key = module.query_norm(query), module.key_norm(key)
        if module.rotary is not None:
            angles = self._rotary[id(module.rotary)]
            query, key = module.rotary.rotated(query, *angles), module.rotary.rotated(key, *angles)
        read = self._memory.targets[number, :, : self._size.places, :, : self._size.positions]
        if has_kernel(module, query):
            mixed = one_query_attention(module, query, (key, value), read, self._at, window)
            return module.output(mixed)
        read.index_put_(self._where, torch.stack((key[:, :, 0], value[:, :, 0])))
        return module.output(_attended(module, query, read, self._mask(window)))

    def _to_source(self, module: MultiHeadAttention, number: int, x: Tensor) -> Tensor:
        query = _heads(module.query(x), module.d_head)
        read = self._memory.sources[number, :, : self._size.places, :, : self._size.source]
        if has_kernel(module, query):
            return module.output(one_query_attention(module, query, None, read, self._source_lengths))
        mixed = _attended(module, query, read, self._source_mask())
        has_source = self._source_lengths > 0  # else there is nothing to attend to, as at a free place
        return module.output(mixed.where(has_source[:, None, None], 0.0))

    def _source_mask(self) -> Float[Tensor, "places 1 1 source"]:
        if SOURCE not in self._masks:
            positions = torch.arange(self._size.source, device=self._at.device)
            seen = positions < self._source_lengths[:, None].clamp(min=1)
            self._masks[SOURCE] = _additive(seen, self._memory.sources.dtype)
        return self._masks[SOURCE]

    def _mask(self, window: int | None) -> Float[Tensor, "places 1 1 positions"]:
        if window not in self._masks:
            seen = self._positions <= self._at[:, None]
            if window is not None:
                seen = seen & (self._positions > self._at[:, None] - window)
            self._masks[window] = _additive(seen, self._memory.targets.dtype)
        return self._masks[window]


def _heads(x: Float[Tensor, "places 1 features"], d_head: int) -> Float[Tensor, "places heads 1 d_head"]:
    return x.unflatten(-1, (-1, d_head)).transpose(1, 2)


def _additive(seen: Tensor, dtype: torch.dtype) -> Float[Tensor, "places 1 1 len"]:
    """0 where a position is seen, -inf elsewhere."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, -torch.inf)[
        :, None, None
    ]


def _attended(
    module: MultiHeadAttention,
    query: Float[Tensor, "places heads 1 d_head"],
    read: Float[Tensor, "2 places kv_heads len d_head"],
    mask: Float[Tensor, "places 1 1 len"],
) -> Float[Tensor, "places 1 features"]:
    """What an attention mixes; the query heads that share a head of keys are queries of that head."""
    grouped = query.reshape(len(query), module.num_kv_heads, -1, module.d_head)
    mixed = F.scaled_dot_product_attention(grouped, read[0], read[1], mask, scale=scale_of(module))
    return mixed.reshape(len(query), 1, -1)
