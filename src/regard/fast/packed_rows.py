"""Attention of sequences that lie one after another in a single row, without padding.

Within `packing` the fused attentions compute each sequence by itself, and rotary positions are counted within
it. All other layers compute each position alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.fast import gpu_training
from regard.fast.unchanged import class_is_unchanged
from regard.layers.positions import RotaryPositions
from regard.layers.scaled_dot_product import Key, Mixed, Query, Value


class Sequences(NamedTuple):
    """Where sequences lie. Every token belongs to one, and a sequence may be empty.

    `bounds` are the cumulative lengths from 0 on, `cu_seqlens` in other libraries: sequence i has the tokens
    from `bounds[i]` to `bounds[i + 1]`.
    """

    positions: Int64[Tensor, " tokens"]  # of each token within its sequence
    bounds: Int64[Tensor, " bounds"]
    longest: int  # tokens of a sequence at most


class Packing(NamedTuple):
    """The sequences of a stack's tokens, and those that its attentions read if they are not causal."""

    own: Sequences
    memory: Sequences


_packing: ContextVar[Packing | None] = ContextVar("packing", default=None)


@contextmanager
def packing(own: Sequences, memory: Sequences) -> Iterator[None]:
    """A context for a stack of these sequences: what is not causal in it attends to the memory."""
    token = _packing.set(Packing(own, memory))
    try:
        yield
    finally:
        _packing.reset(token)


def packed_attention(
    query: Query, key: Key, value: Value, dropout: float, *, is_causal: bool
) -> Mixed | None:
    """Attention of each sequence to its memory, or if causal to itself; None outside of `packing`."""
    found = None if torch.compiler.is_compiling() else _packing.get()
    if found is None:
        return None
    keys = found.own if is_causal else found.memory
    longest = max(found.own.longest, keys.longest)
    return gpu_training.attention_of_sequences(
        query, key, value, found.own.bounds, keys.bounds, longest, dropout, is_causal=is_causal
    )


class FusedRotaryPositions(RotaryPositions):
    """`RotaryPositions` in one pass over memory; within `packing` each sequence counts from 0."""

    def forward(
        self, x: Float[Tensor, "batch heads len d_head"], start: int = 0
    ) -> Float[Tensor, "batch heads len d_head"]:
        if torch.compiler.is_compiling() or not class_is_unchanged(RotaryPositions):
            return super().forward(x, start)
        found = _packing.get()
        if found is None:
            tables, positions = self.sines_and_cosines(start, x.size(2)), None
        else:
            tables, positions = self.sines_and_cosines(0, found.own.longest), found.own.positions
        rotated = gpu_training.rotated(self, x, positions, *tables)
        if rotated is not None:
            return rotated
        return self.rotated(x, *(tables if positions is None else (each[positions] for each in tables)))
