"""Attention of sequences that lie one after another in a single row, without padding.

Within `packing` the fused attentions compute each sequence by itself, and rotary positions are counted within
it. All other layers compute each position alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.fast import gpu_training
from regard.layers.positions import RotaryPositions
from regard.layers.scaled_dot_product import Key, Mixed, Query, Value


class Sequences(NamedTuple):
    """Where sequences lie. Every position belongs to one, and a sequence may be empty."""

    positions: Int64[Tensor, " tokens"]  # of each token within its sequence
    starts: Int64[Tensor, " ends"]  # where each sequence begins, and the end of the last one
    longest: int  # positions that a sequence has at most


@dataclass(frozen=True)
class Packing:
    """The sequences of a stack's tokens, and those that it attends to if not causally (itself, or others)."""

    own: Sequences
    memory: Sequences
    rotations: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def rotation(self, rotary: RotaryPositions) -> tuple[Tensor, Tensor]:
        """The sines and cosines of each token's position."""
        found = self.rotations.get(id(rotary))
        if found is None:
            tables = rotary.sines_and_cosines(0, self.own.longest)
            sine, cosine = (table[self.own.positions] for table in tables)
            found = self.rotations[id(rotary)] = sine, cosine
        return found


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
    sources = found.own if is_causal else found.memory
    longest = max(found.own.longest, sources.longest)
    return gpu_training.packed_attention(
        query, key, value, found.own.starts, sources.starts, longest, dropout, is_causal=is_causal
    )


class PackedRotaryPositions(RotaryPositions):
    """`RotaryPositions` that within `packing` counts each sequence's positions from 0."""

    def forward(
        self, x: Float[Tensor, "batch heads len d_head"], start: int = 0
    ) -> Float[Tensor, "batch heads len d_head"]:
        found = None if torch.compiler.is_compiling() else _packing.get()
        return super().forward(x, start) if found is None else self.turned(x, *found.rotation(self))
