"""Pairs of sequences without padding: all sources one after another, and so all targets.

Layers that compute each token alone need no rows, and attention on a GPU has a kernel that knows where each
row begins. Numbers of tokens and rows are rounded up, so that batches have few different shapes and a GPU can
replay a recorded pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

LEAST_STEP = 64  # tokens: their number is a multiple of it
SHORTEST_TILE = 16  # positions of the shortest rows that the kernels tell apart


class Sizes(NamedTuple):
    """The shape of packed pairs."""

    src_tokens: int
    tgt_tokens: int
    rows: int
    longest: int  # positions of a row at most, a power of two


class PackedTokens(NamedTuple):
    """Sequences one after another; each token belongs to one, and some are empty."""

    ids: Int64[Tensor, " tokens"]
    positions: Int64[Tensor, " tokens"]  # within the sequence, from 0
    bounds: Int64[Tensor, " bounds"]  # cumulative lengths from 0 on: `cu_seqlens` in other libraries


@dataclass(frozen=True, kw_only=True)
class PackedPairs:
    """The pairs of a `PairBatch`, then rows of tokens that fill up its size and have no labels.

    All its numbers are one tensor, so that one operation copies them.
    """

    numbers: Int64[Tensor, " numbers"]
    sizes: Sizes

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by field name."""
        return {"numbers": self.numbers}

    def each(self, function: Callable[[Tensor], Tensor]) -> "PackedPairs":
        """The pairs with `function` applied to their tensors."""
        return replace(self, numbers=function(self.numbers))

    @property
    def source(self) -> PackedTokens:
        return PackedTokens(*self._parts[:3])

    @property
    def target(self) -> PackedTokens:
        """The decoder's input: each target without its last position."""
        return PackedTokens(*self._parts[3:6])

    @property
    def labels(self) -> Int64[Tensor, " tokens"]:
        """The token to predict at each position of the target, or IGNORED."""
        return self._parts[6]

    @property
    def num_targets(self) -> Int64[Tensor, "1"]:
        """The number of tokens to predict."""
        return self._parts[7]

    @property
    def _parts(self) -> tuple[Tensor, ...]:
        source, target, ends = self.sizes.src_tokens, self.sizes.tgt_tokens, self.sizes.rows + 1
        return self.numbers.split([source, source, ends, target, target, ends, target, 1])


def packed_pairs(
    src_ids: Int64[Tensor, "batch src_len"],
    src_lengths: Int64[Tensor, " batch"],
    tgt_ids: Int64[Tensor, "batch tgt_len"],
    tgt_lengths: Int64[Tensor, " batch"],
    *,
    pad_id: int,
    ignored: int,
    longest: int,
) -> PackedPairs | None:
    """The pairs of a batch on the CPU (see `PairBatch`). Labels equal to `pad_id` become `ignored`.

    None if a row has more than `longest` tokens, or if all are empty.
    """
    tgt_lengths = (tgt_lengths - 1).clamp(min=0)  # bos is not predicted, eos not read
    most = int(torch.cat([src_lengths, tgt_lengths]).max())
    if not 0 < most <= longest:
        return None
    tile = max(SHORTEST_TILE, _power_of_two(most))
    src_tokens, tgt_tokens = (_rounded_up(int(each.sum())) for each in (src_lengths, tgt_lengths))
    filling = max(
        -(-(size - int(each.sum())) // tile)
        for size, each in ((src_tokens, src_lengths), (tgt_tokens, tgt_lengths))
    )
    rows = _power_of_two(max(len(src_lengths) + filling, 2 * max(src_tokens, tgt_tokens) // tile))
    labels = _chosen(tgt_ids[:, 1:], tgt_lengths, tgt_tokens, fill=ignored)
    labels = torch.where(labels == pad_id, ignored, labels)
    numbers = torch.cat(
        [
            *_packed(src_ids, src_lengths, src_tokens, rows, tile, pad_id),
            *_packed(tgt_ids[:, :-1], tgt_lengths, tgt_tokens, rows, tile, pad_id),
            labels,
            (labels != ignored).sum()[None],
        ]
    )
    return PackedPairs(numbers=numbers, sizes=Sizes(src_tokens, tgt_tokens, rows, tile))


def _packed(
    ids: Tensor, lengths: Tensor, tokens: int, rows: int, tile: int, pad_id: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, positions and bounds; the tokens that fill up are in rows of `tile`, at position 0 each."""
    positions = torch.arange(ids.size(1)).expand_as(ids)
    used = int(lengths.sum())
    ends = torch.full((rows + 1,), tokens)
    ends[0], ends[1 : len(lengths) + 1] = 0, lengths.cumsum(0)
    fills = torch.arange(used, tokens, tile)[1:]
    ends[len(lengths) + 1 : len(lengths) + 1 + len(fills)] = fills
    return (
        _chosen(ids, lengths, tokens, fill=pad_id),
        _chosen(positions, lengths, tokens, fill=0),
        ends,
    )


def _chosen(values: Tensor, lengths: Tensor, tokens: int, *, fill: int) -> Tensor:
    """The values of all rows up to their lengths, filled up to `tokens`."""
    chosen = values[torch.arange(values.size(1)) < lengths[:, None]]
    return torch.cat([chosen, torch.full((tokens - len(chosen),), fill)])


def _rounded_up(tokens: int) -> int:
    """To a multiple of an eighth of the power of two below, so that a sixteenth is added on average."""
    tokens = max(1, tokens)
    step = max(LEAST_STEP, 2 ** tokens.bit_length() // 16)
    return -(-tokens // step) * step


def _power_of_two(number: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << (max(1, number) - 1).bit_length()
