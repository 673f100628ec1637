"""The states of a recurrent encoder-decoder: the encoder's, the decoder's, and the decoding cache."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from regard.layers.recurrent import States


@dataclass(frozen=True)
class RecurrentMemory:
    """The encoder's states at each position, and the decoder's initial states, made from its last ones."""

    hidden: Float[Tensor, "batch src_len d_memory"]
    mask: Bool[Tensor, "batch 1 src_len"]
    initial: States  # of each layer of the decoder

    def select(self, rows: Int64[Tensor, " rows"]) -> "RecurrentMemory":
        """A memory whose row i is row `rows[i]` of this one."""
        return RecurrentMemory(self.hidden[rows], self.mask[rows], _selected(self.initial, rows))


@dataclass(frozen=True)
class Source:
    """The keys, values and mask that a decoder attends to in each step."""

    keys: Float[Tensor, "batch src_len d_key"]
    values: Float[Tensor, "batch src_len d_memory"]
    mask: Bool[Tensor, "batch 1 src_len"]

    def select(self, rows: Int64[Tensor, " rows"]) -> "Source":
        return Source(self.keys[rows], self.values[rows], self.mask[rows])


@dataclass(frozen=True)
class DecoderState:
    """The states of a decoder's layers and, with input feeding, the output of its last step.

    `length` counts the target tokens read so far.
    """

    layers: States
    last_output: Float[Tensor, "batch d_embedding"] | None = None
    length: int = 0

    def select(self, rows: Int64[Tensor, " rows"]) -> "DecoderState":
        last_output = None if self.last_output is None else self.last_output[rows]
        return DecoderState(_selected(self.layers, rows), last_output, self.length)


def top_state(states: States) -> Float[Tensor, "batch d_model"]:
    """The hidden state of the last layer; an LSTM's cell state is left out."""
    return states[-1][0]


def _selected(states: tuple[tuple[Tensor, ...], ...], rows: Tensor) -> States:
    return tuple(tuple(part[rows] for part in state) for state in states)


class RecurrentCache:
    """The decoding cache: the source and the decoder's state, one row for each hypothesis.

    `select` drops, repeats and reorders rows in place. It copies the source only if rows change their
    sentence.
    """

    def __init__(self, source: Source, state: DecoderState) -> None:
        self.source, self.state = source, state
        self._sentences = torch.arange(len(source.mask), device=source.mask.device)

    @property
    def length(self) -> int:
        """The number of target tokens read so far."""
        return self.state.length

    def select(self, rows: Int64[Tensor, " rows"]) -> "RecurrentCache":
        """Select rows in place: row i becomes what row `rows[i]` was."""
        self.state = self.state.select(rows)
        sentences = self._sentences[rows]
        if not torch.equal(sentences, self._sentences):
            self._sentences, self.source = sentences, self.source.select(rows)
        return self
