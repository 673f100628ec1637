"""Recurrent layers, and the attention of their decoders: additive, dot, general, concat."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_shares, refuse_other_sizes, refuse_unknown
from regard.layers.scaled_dot_product import masked_softmax
from regard.layers.stacked import StackedLinear

Cell = Literal["gru", "lstm"]
ScoreFunction = Literal["additive", "dot", "general", "concat"]
State = tuple[Float[Tensor, "batch d_model"], ...]  # of one layer; the hidden state first
States = tuple[State, ...]  # of layers one above the other, the lowest first
Inputs = Float[Tensor, "batch len gates_d_model"]  # outputs of `RecurrentLayer.input`


class RecurrentLayer(nn.Module, ABC):
    """One direction of a recurrent layer; `step` is its equation.

    `input` computes the part that does not depend on the state, by one product for all positions; a decoder
    may add to it before `step` uses it. PyTorch's own `nn.GRU` and `nn.LSTM` are hardly faster on a CPU.
    """

    # 16 positions of 256 sequences, forward and backward, take 92 ms in `nn.GRU` and 103 ms here with a width
    # of 256, 316 ms and 335 ms with 512 (LSTM: 122 and 123 ms, 423 and 472 ms; one core of an Intel Xeon with
    # AVX-512).

    gates: int  # matrices in `input` and in `hidden`
    parts: int  # vectors in a state

    def __init__(self, d_input: int, d_model: int, *, hidden_bias: bool) -> None:
        super().__init__()
        refuse_other_sizes(d_input=d_input, d_model=d_model)
        self.d_model = d_model
        self.input = StackedLinear(d_input, (d_model,) * self.gates)
        self.hidden = StackedLinear(d_model, (d_model,) * self.gates, hidden_bias)

    @abstractmethod
    def step(self, inputs: Float[Tensor, "batch gates_d_model"], state: State) -> State:
        """The state after one more position."""

    def start(self, like: Float[Tensor, "batch width"]) -> State:
        """Zeros, for as many sequences as `like` has rows."""
        return (like.new_zeros(like.size(0), self.d_model),) * self.parts

    def forward(
        self,
        inputs: Inputs,
        state: State,
        mask: Bool[Tensor, "batch len"] | None = None,
        *,
        backward: bool = False,
    ) -> tuple[Float[Tensor, "batch len d_model"], State]:
        """The hidden state at each position, and the state after all of them.

        The state does not change where `mask` is False, so that padding on either side has no effect. With
        `backward` the sequence is read from its end.
        """
        steps = list(zip(inputs.unbind(1), _columns(mask, inputs.size(1)), strict=True))
        hidden = []
        for inputs_here, is_token in reversed(steps) if backward else steps:
            after = self.step(inputs_here, state)
            if is_token is not None:
                after = tuple(new.where(is_token, old) for new, old in zip(after, state, strict=True))
            state = after
            hidden.append(state[0])
        if backward:
            hidden.reverse()
        return torch.stack(hidden, dim=1), state


def _columns(mask: Tensor | None, length: int) -> Sequence[Tensor | None]:
    """The mask of each position, one value a sequence."""
    return [None] * length if mask is None else mask[:, :, None].unbind(1)


class GRU(RecurrentLayer):
    """The gated recurrent unit (Cho et al. 2014, section 2.3), in the variant of PyTorch and cuDNN.

    The reset gate is applied to the product U h, not to h before it. The update gate is the share of the old
    state that is kept.
    """

    gates, parts = 3, 1  # reset, update, new

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__(d_input, d_model, hidden_bias=True)  # the new state's bias is inside the reset gate

    def step(self, inputs: Float[Tensor, "batch gates_d_model"], state: State) -> State:
        (hidden,) = state
        recurrent = self.hidden(hidden)
        widths = (2 * self.d_model, self.d_model)
        (gates_in, new_in), (gates_recurrent, new_recurrent) = (
            inputs.split(widths, 1),
            recurrent.split(widths, 1),
        )
        reset, update = (gates_in + gates_recurrent).sigmoid().chunk(2, dim=1)
        new = (new_in + reset * new_recurrent).tanh()
        return (new + update * (hidden - new),)


class LSTM(RecurrentLayer):
    """Long short-term memory (Hochreiter and Schmidhuber 1997) with a forget gate (Gers et al. 2000)."""

    gates, parts = 4, 2  # input, forget, new, output; hidden state, cell state
    FORGET = 1  # the number of the forget gate

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__(d_input, d_model, hidden_bias=False)

    def step(self, inputs: Float[Tensor, "batch gates_d_model"], state: State) -> State:
        hidden, cell = state
        write, keep, new, read = (inputs + self.hidden(hidden)).chunk(4, dim=1)
        cell = keep.sigmoid() * cell + write.sigmoid() * new.tanh()
        return read.sigmoid() * cell.tanh(), cell


CELLS: dict[Cell, type[GRU] | type[LSTM]] = {"gru": GRU, "lstm": LSTM}


class RecurrentStack(nn.Module):
    """Recurrent layers, each on top of the one before, with dropout between them.

    `forward` reads a whole sequence, `step` one position. Both take the output of `read`, to which a decoder
    may have added.
    """

    def __init__(self, cell: Cell, num_layers: int, d_input: int, d_model: int, dropout: float) -> None:
        super().__init__()
        refuse_other_sizes(num_layers=num_layers, d_input=d_input, d_model=d_model)
        refuse_other_shares(dropout=dropout)
        refuse_unknown("cell", cell, CELLS)
        self.layers = nn.ModuleList(
            CELLS[cell](d_model if number else d_input, d_model) for number in range(num_layers)
        )
        self.dropout = nn.Dropout(dropout)

    @property
    def gates(self) -> int:
        return self._layers[0].gates

    @property
    def _layers(self) -> list[RecurrentLayer]:
        return list(self.layers)  # type: ignore[arg-type]

    def read(self, x: Float[Tensor, "batch len d_input"]) -> Inputs:
        """The lowest layer's products with its inputs, which do not depend on the state."""
        return self._layers[0].input(x)

    def forward(self, inputs: Inputs, states: States) -> tuple[Float[Tensor, "batch len d_model"], States]:
        """The top layer's hidden state at each position, and the states after all of them."""
        hidden, after = inputs, []
        for number, (layer, state) in enumerate(zip(self._layers, states, strict=True)):
            hidden, state = layer(layer.input(self.dropout(hidden)) if number else hidden, state)
            after.append(state)
        return hidden, tuple(after)

    def step(self, inputs: Float[Tensor, "batch gates_d_model"], states: States) -> States:
        """The states after one more position."""
        after: list[State] = []
        for layer, state in zip(self._layers, states, strict=True):
            after.append(layer.step(layer.input(self.dropout(after[-1][0])) if after else inputs, state))
        return tuple(after)


def weighted_mean(
    scores: Float[Tensor, "batch tgt_len src_len"],
    values: Float[Tensor, "batch src_len d_memory"],
    mask: Bool[Tensor, "#batch #tgt_len src_len"] | None = None,
) -> Float[Tensor, "batch tgt_len d_memory"]:
    """The mean of the values, weighted by the softmax of the scores (Bahdanau et al. 2015, eqs. 5 and 6).

    A row whose mask is False everywhere gets zeros.
    """
    return masked_softmax(scores, mask) @ values


class SourceAttention(nn.Module, ABC):
    """Attention from the state of a decoder to the states of an encoder.

    `attend` computes weights and outputs. A recorder can replace it by a function with the signature of
    `weighted_mean`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.attend = weighted_mean

    @abstractmethod
    def read(self, memory: Float[Tensor, "batch src_len d_memory"]) -> Float[Tensor, "batch src_len d_key"]:
        """The keys of a source, computed once for all steps."""

    @abstractmethod
    def scores(
        self, query: Float[Tensor, "batch tgt_len d_model"], keys: Float[Tensor, "batch src_len d_key"]
    ) -> Float[Tensor, "batch tgt_len src_len"]:
        """The score of each query with each key."""

    def forward(
        self,
        query: Float[Tensor, "batch tgt_len d_model"],
        keys: Float[Tensor, "batch src_len d_key"],
        memory: Float[Tensor, "batch src_len d_memory"],
        mask: Bool[Tensor, "#batch #tgt_len src_len"] | None = None,
    ) -> Float[Tensor, "batch tgt_len d_memory"]:
        """The weighted mean of `memory` for each query; `keys` are the output of `read(memory)`."""
        return self.attend(self.scores(query, keys), memory, mask)


class AdditiveAttention(SourceAttention):
    """Additive attention: the score of decoder state s and source state h is v . tanh(W s + U h).

    Bahdanau et al. 2015, appendix A.1.2. Luong et al. 2015 call it concat and write v . tanh(W [s; h]), with
    one matrix for both.
    """

    def __init__(self, d_model: int, d_memory: int) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, d_memory=d_memory)
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_memory, d_model, bias=False)
        self.score = nn.Linear(d_model, 1, bias=False)

    def read(self, memory: Float[Tensor, "batch src_len d_memory"]) -> Float[Tensor, "batch src_len d_key"]:
        return self.key(memory)

    def scores(
        self, query: Float[Tensor, "batch tgt_len d_model"], keys: Float[Tensor, "batch src_len d_key"]
    ) -> Float[Tensor, "batch tgt_len src_len"]:
        return self.score((self.query(query)[:, :, None] + keys[:, None]).tanh())[..., 0]


class DotAttention(SourceAttention):
    """Dot-product attention: the score of decoder state s and source state h is s . h.

    Luong et al. 2015, equation 8. It has no parameters.

    Raises:
        ValueError: the states have different widths.
    """

    def __init__(self, d_model: int, d_memory: int) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, d_memory=d_memory)
        if d_model != d_memory:
            raise ValueError(
                f"a dot product needs equal widths, not d_model {d_model} and d_memory {d_memory}"
            )

    def read(self, memory: Float[Tensor, "batch src_len d_memory"]) -> Float[Tensor, "batch src_len d_key"]:
        return memory

    def scores(
        self, query: Float[Tensor, "batch tgt_len d_model"], keys: Float[Tensor, "batch src_len d_key"]
    ) -> Float[Tensor, "batch tgt_len src_len"]:
        return query @ keys.transpose(1, 2)


class GeneralAttention(DotAttention):
    """General attention: the score of decoder state s and source state h is s . W h.

    Luong et al. 2015, equation 8.
    """

    def __init__(self, d_model: int, d_memory: int) -> None:
        super().__init__(d_model, d_model)
        refuse_other_sizes(d_memory=d_memory)
        self.key = nn.Linear(d_memory, d_model, bias=False)

    def read(self, memory: Float[Tensor, "batch src_len d_memory"]) -> Float[Tensor, "batch src_len d_key"]:
        return self.key(memory)


SCORINGS: dict[ScoreFunction, type[AdditiveAttention] | type[DotAttention]] = {
    "additive": AdditiveAttention,
    "dot": DotAttention,
    "general": GeneralAttention,
    "concat": AdditiveAttention,
}
