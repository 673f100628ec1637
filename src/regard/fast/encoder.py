"""An encoder by kernels: the positions of all sources of a batch concatenated, without padding.

So the encoding of a source does not depend on the batch it is in, to the bit.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from regard.fast.native.attention import attend_to_memory
from regard.fast.native.plan import UnsupportedPart
from regard.fast.native.rotary import rotate
from regard.fast.packed_memory import PackedMemory
from regard.fast.position_vectors import PositionVectors, rotary_vectors
from regard.fast.row_layers import row_feed_forward, row_linear, row_norm, row_residual, scale_of
from regard.fast.slot_cache import SlotCache
from regard.layers.attention import SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.models.encoder_decoder import EncoderDecoder, attended_lengths

LONG = 128  # positions; longer sources use PyTorch's attention, which reads keys once for many queries

SourceIds = Int64[Tensor, "sources width"]
Positions = Float[Tensor, "positions features"]


@dataclass(frozen=True)
class Sources:
    """The layout of concatenated sources: the span of each source, and that of each position's source."""

    real: Bool[Tensor, "sources width"]  # False at padding
    spans: list[tuple[int, int]]  # begin and end of each long source
    starts: Int64[Tensor, " positions"]
    lengths: Int64[Tensor, " positions"]  # of its source; 0 in the long sources
    rotary: Float[Tensor, "positions two_d_head"] | None  # sines and then cosines of the angles

    @classmethod
    def of(cls, lengths: Int64[Tensor, " sources"], width: int, rotary: PositionVectors | None) -> "Sources":
        starts = lengths.cumsum(0) - lengths
        spans = [
            (start, start + length)
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
            if length > LONG
        ]
        all_starts = starts.repeat_interleave(lengths)
        return cls(
            real=torch.arange(width) < lengths[:, None],
            spans=spans,
            starts=all_starts,
            lengths=lengths.masked_fill(lengths > LONG, 0).repeat_interleave(lengths),
            rotary=None if rotary is None else rotary(torch.arange(len(all_starts)) - all_starts),
        )


class Start:
    """Sources -> a cache with the cross-attention keys and values of each decoder block."""

    def __init__(self, model: EncoderDecoder) -> None:
        """Convert the encoder.

        Raises:
            UnsupportedPart: it has a part that no kernel computes.
        """
        self._blocks = [_block(block) for block in model.encoder.blocks]
        self._rotary = rotary_vectors(model.encoder.blocks)
        self._source_end = model.config.source_end  # not the model, which would be kept for ever
        self._embed, self._final_norm = model.encoder.input, row_norm(model.encoder.norm)
        self._memories = [_memory(block) for block in model.decoder.blocks]

    def __call__(self, src_ids: SourceIds, src_lengths: Int64[Tensor, " sources"]) -> SlotCache:
        """All at once."""
        parts = self.by_layer(src_ids, src_lengths)
        while True:
            try:
                next(parts)
            except StopIteration as end:
                return end.value

    def by_layer(
        self, src_ids: SourceIds, src_lengths: Int64[Tensor, " sources"]
    ) -> Generator[None, None, SlotCache]:
        """As a call, in as many parts as there are layers, and one more."""
        src_lengths = attended_lengths(src_lengths, source_end=self._source_end)
        sources = Sources.of(src_lengths, src_ids.size(1), self._rotary)
        x = self._embed(src_ids)[sources.real]
        for block in self._blocks:
            x = block(x, sources)
            yield
        x = self._final_norm(x)
        starts = src_lengths.cumsum(0) - src_lengths
        layers = [memory(x) for memory in self._memories]
        return SlotCache(PackedMemory(layers, starts, src_lengths, src_ids.size(1), len(x)))


def _memory(block: nn.Module) -> Callable[[Positions], tuple[Positions, Positions]]:
    """Keys and values of a decoder block's cross-attention."""
    assert isinstance(block, DecoderBlock)
    key, value = row_linear(block.cross_attention.key), row_linear(block.cross_attention.value)
    return lambda x: (key(x), value(x))


def _block(block: nn.Module) -> Callable[[Positions, Sources], Positions]:
    if type(block) is not EncoderBlock:
        raise UnsupportedPart(f"{type(block).__name__} is not a block with kernels")
    around_attention, attention = (
        row_residual(block.around_self_attention),
        _self_attention(block.self_attention),
    )
    around_network, network = row_residual(block.around_feed_forward), row_feed_forward(block.feed_forward)
    return lambda x, sources: around_network(
        around_attention(x, lambda y, plus: attention(y, plus, sources)), network
    )


def _self_attention(module: SelfAttention) -> Callable[[Positions, Positions | None, Sources], Positions]:
    project, output, scale = row_linear(module.query_key_value), row_linear(module.output), scale_of(module)
    heads, groups, d_head = module.num_heads, module.num_kv_heads, module.d_head
    query_end, key_end = heads * d_head, (heads + groups) * d_head
    norms, rotates = (module.query_norm, module.key_norm), module.rotary is not None
    query_norm, key_norm = (None if each is None else row_norm(each) for each in norms)

    def attend(x: Tensor, residual: Tensor | None, sources: Sources) -> Tensor:
        all_heads = project(x)
        both, value = all_heads[:, :key_end], all_heads[:, key_end:]
        if query_norm is not None and key_norm is not None:
            query, key = both[:, :query_end], both[:, query_end:]
            normed = (
                query_norm(query.reshape(-1, d_head)).view(len(x), -1),
                key_norm(key.reshape(-1, d_head)).view(len(x), -1),
            )
            both = torch.cat(normed, dim=1)
        if rotates and sources.rotary is not None:
            both = rotate(both, sources.rotary, d_head)
        query, key = both[:, :query_end], both[:, query_end:]
        mixed = attend_to_memory(query, key, value, sources.starts, sources.lengths, LONG, d_head, scale)
        for start, end in sources.spans:
            own_query, own_key, own_value = (
                part[start:end].view(1, end - start, -1, d_head).transpose(1, 2)
                for part in (query, key, value)
            )
            found = F.scaled_dot_product_attention(
                own_query, own_key, own_value, scale=scale, enable_gqa=heads > groups
            )
            mixed[start:end] = found.transpose(1, 2).flatten(2)[0]
        return output(mixed, residual)

    return attend
