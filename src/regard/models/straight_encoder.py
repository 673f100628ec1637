"""An encoder in a straight line: the sources of a batch one after the other, without padding.

What is made of a source then depends on nothing beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from regard.layers.attention import SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.layers.seated_cache import PackedMemory, SeatedCache
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.straight_attention import projection, scale_of
from regard.models.straight_linear import around, feed_forward, linear, norm
from regard.native.attention import attend_to_memory

LONG = 128  # positions: in a longer source attention is PyTorch's, which reads keys for many queries at once

Start = Callable[[Int64[Tensor, "sources width"], Int64[Tensor, " sources"]], SeatedCache]


@dataclass(frozen=True)
class Sources:
    """Where the sources are among all positions, and of each position where its source is."""

    seen: Bool[Tensor, "sources width"]  # what is no padding
    spans: list[tuple[int, int]]  # of those that are long
    starts: Int64[Tensor, " positions"]
    lengths: Int64[Tensor, " positions"]  # 0 in those that are long

    @classmethod
    def of(cls, lengths: Int64[Tensor, " sources"], width: int) -> "Sources":
        starts = lengths.cumsum(0) - lengths
        spans = [
            (start, start + length)
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
            if length > LONG
        ]
        return cls(
            seen=torch.arange(width) < lengths[:, None],
            spans=spans,
            starts=starts.repeat_interleave(lengths),
            lengths=lengths.masked_fill(lengths > LONG, 0).repeat_interleave(lengths),
        )


def starting(model: EncoderDecoder) -> Start:
    """From sources to what each block of the decoder makes of their memory."""
    blocks = [_block(block) for block in model.encoder.blocks]
    enter, leave = model.encoder.input, norm(model.encoder.norm)
    readers = [_reader(block) for block in model.decoder.blocks]

    def start(src_ids: Tensor, src_lengths: Tensor) -> SeatedCache:
        sources = Sources.of(src_lengths, src_ids.size(1))
        x = enter(src_ids)[sources.seen]
        for block in blocks:
            x = block(x, sources)
        x = leave(x)
        starts = src_lengths.cumsum(0) - src_lengths
        layers = [read(x) for read in readers]
        return SeatedCache(PackedMemory(layers, starts, src_lengths, src_ids.size(1)))

    return start


def _reader(block: nn.Module) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    assert isinstance(block, DecoderBlock)
    key, value = linear(block.cross_attention.key), linear(block.cross_attention.value)
    return lambda x: (key(x), value(x))


def _block(block: nn.Module) -> Callable[[Tensor, Sources], Tensor]:
    assert isinstance(block, EncoderBlock)
    to_itself = around(block.around_self_attention, _self_attention(block.self_attention))
    onward = around(block.around_feed_forward, feed_forward(block.feed_forward))
    return lambda x, sources: onward(to_itself(x, sources))


def _self_attention(module: SelfAttention) -> Callable[[Tensor, Tensor | None, Sources], Tensor]:
    project, output, rotary, scale = (
        projection(module),
        linear(module.output),
        module.rotary,
        scale_of(module),
    )
    heads, groups, d_head = module.num_heads, module.num_kv_heads, module.d_head

    def look(x: Tensor, plus: Tensor | None, sources: Sources) -> Tensor:
        turned, value = project(x)
        if rotary is not None:
            padded = x.new_zeros(*sources.seen.shape, heads + groups, d_head)
            padded[sources.seen] = turned[:, :, 0]
            turned = rotary(padded.transpose(1, 2)).transpose(1, 2)[sources.seen]
        query, key = turned[:, :heads].flatten(1), turned[:, heads:].flatten(1)
        mixed = attend_to_memory(
            query, key, value.flatten(1), sources.starts, sources.lengths, LONG, d_head, scale
        )
        for start, end in sources.spans:
            apart = [
                part[start:end].view(1, end - start, -1, d_head).transpose(1, 2)
                for part in (query, key, value.flatten(1))
            ]
            found = F.scaled_dot_product_attention(
                apart[0], apart[1], apart[2], scale=scale, enable_gqa=heads > groups
            )
            mixed[start:end] = found.transpose(1, 2).flatten(2)[0]
        return output(mixed, plus)

    return look
