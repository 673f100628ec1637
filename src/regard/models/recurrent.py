"""Recurrent encoder-decoders: without attention (Cho et al. 2014), with Bahdanau's or with Luong's."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.embedding import TokenEmbedding
from regard.layers.masks import padding_mask
from regard.layers.recurrent import (
    CELLS,
    LSTM,
    SCORINGS,
    Cell,
    RecurrentLayer,
    RecurrentStack,
    SourceAttention,
    State,
    States,
)
from regard.layers.stacked import StackedLinear
from regard.models.config import ModelConfig
from regard.models.initialise import matrices, xavier
from regard.models.recurrent_states import DecoderState, RecurrentCache, RecurrentMemory, Source, top_state
from regard.models.sequence_to_sequence import SequenceToSequence

TiedMatrices = Literal["all", "target", "none"]
AttentionKind = Literal["none", "additive", "dot", "general", "concat"]
LUONG = ("dot", "general", "concat")

# The last bits of a matrix product depend on its number of rows, unless that is a multiple of this number
# (measured in decoding/step.py). So in evaluation the encoder repeats rows of its batch up to a multiple:
# the states of a source do not depend on the batch, to the bit.
BATCH_MULTIPLE = 16


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelConfig):
    """The settings of a recurrent encoder-decoder; the default has no attention."""

    kind: ClassVar[str] = "recurrent"
    generates: ClassVar[bool] = True
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Cho et al. 2014: one context vector
        "rnn": {},
        # Bahdanau et al. 2015: both directions, and attention before each step
        "bahdanau": {"bidirectional": True, "attention": "additive"},
        # Luong et al. 2015: stacked LSTMs, attention after each step, and input feeding. dot was their best
        # with global attention; general, their best with local attention, takes two directions too
        "luong": {"cell": "lstm", "num_layers": 2, "attention": "general", "input_feeding": True},
    }
    src_vocab_size: int  # tokens of the source vocabulary; set from the tokeniser
    tgt_vocab_size: int  # tokens of the target vocabulary; set from the tokeniser
    cell: Cell = "gru"  # the recurrent unit
    num_layers: int = 1  # of the encoder, and of the decoder
    d_model: int = 512  # width of the states of each direction
    d_embedding: int = 256  # width of embeddings, and of the output layer's input
    bidirectional: bool = False  # of the encoder
    attention: AttentionKind = "none"  # additive: Bahdanau's; dot, general, concat: Luong's
    input_feeding: bool = False  # a step reads the last attentional vector (Luong et al. 2015, section 3.3)
    dropout: float = 0.3  # of embeddings, between layers, and before the output layer
    tied: TiedMatrices = "none"  # "target": target embedding and output weight; "all": source embedding too
    output_bias: bool = False  # the output layer has a bias
    pad_id: int = 0  # the token that fills shorter rows of a batch

    def __post_init__(self) -> None:
        self.require_positive("src_vocab_size", "tgt_vocab_size", "num_layers", "d_model", "d_embedding")
        self.require_fraction("dropout")
        if self.tied == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f"tied = 'all' needs one vocabulary, but the source has {self.src_vocab_size} tokens"
                f" and the target {self.tgt_vocab_size}",
                "use a joint tokeniser, or tied = 'target'",
            )
        if self.input_feeding and self.attention not in LUONG:
            raise ConfigError(
                f"input_feeding needs attention = {', '.join(LUONG)}, not {self.attention!r}",
                "leave input_feeding out: this decoder reads its context at each step anyway",
            )
        if self.attention == "dot" and self.bidirectional:
            raise ConfigError(
                "attention = 'dot' needs states of equal width; those of two directions are twice as wide",
                "use attention = 'general', or bidirectional = false",
            )
        self.require_token_id("pad_id", self.src_vocab_size, self.tgt_vocab_size)

    @property
    def d_memory(self) -> int:
        """The width of the encoder's states."""
        return self.d_model * (1 + self.bidirectional)


class RecurrentEncoder(nn.Module):
    """Source ids -> one state for each position, and the decoder's initial states.

    The initial states are the encoder's last states (Sutskever et al. 2014), or with two directions
    tanh(W [forward; backward]), where Bahdanau et al. 2015 use the backward state alone.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(config.src_vocab_size, config.d_embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                CELLS[config.cell](config.d_memory if layer > 0 else config.d_embedding, config.d_model)
                for _ in range(1 + config.bidirectional)
            )
            for layer in range(config.num_layers)
        )
        self.bridge = None
        if config.bidirectional:
            self.bridge = nn.ModuleList(
                nn.ModuleList(
                    nn.Linear(config.d_memory, config.d_model) for _ in range(CELLS[config.cell].parts)
                )
                for _ in range(config.num_layers)
            )

    def forward(
        self, ids: Int64[Tensor, "batch src_len"], mask: Bool[Tensor, "batch src_len"]
    ) -> tuple[Float[Tensor, "batch src_len d_memory"], States]:
        """The top layer's states, directions concatenated, and the decoder's initial state of each layer."""
        x, initial = self.embedding(ids), []
        for number, directions in enumerate(self.layers):
            x, last = self._run_layer(self.dropout(x), mask, cast(Iterable[RecurrentLayer], directions))
            initial.append(self._bridged(last, number))
        return x, tuple(initial)

    def _run_layer(
        self, x: Tensor, mask: Tensor, directions: Iterable[RecurrentLayer]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The states at each position, and the last ones; directions are concatenated."""
        hidden, last = [], []
        for layer, backward in zip(directions, (False, True), strict=False):
            outputs, state = layer(layer.input(x), layer.start(x[:, 0]), mask, backward=backward)
            hidden.append(outputs)
            last.append(state)
        return torch.cat(hidden, dim=2), tuple(torch.cat(parts, dim=1) for parts in zip(*last, strict=True))

    def _bridged(self, state: tuple[Tensor, ...], layer: int) -> State:
        if self.bridge is None:
            return state
        linears = cast(nn.ModuleList, self.bridge[layer])
        return tuple(linear(part).tanh() for linear, part in zip(linears, state, strict=True))


class RecurrentDecoder(nn.Module, ABC):
    """Target ids -> outputs that predict the next ids; subclasses define the attention."""

    def __init__(self, config: RecurrentConfig, d_feed: int | None) -> None:
        """`d_feed`: the width of a vector that each step reads besides the id; None: it reads none."""
        super().__init__()
        self.embedding = TokenEmbedding(config.tgt_vocab_size, config.d_embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.stack = RecurrentStack(
            config.cell, config.num_layers, config.d_embedding, config.d_model, config.dropout
        )
        self.feed = None
        if d_feed is not None:
            self.feed = StackedLinear(d_feed, (config.d_model,) * self.stack.gates, bias=False)

    def start(self, memory: RecurrentMemory) -> DecoderState:
        """The state before the first id."""
        return DecoderState(memory.initial)

    @abstractmethod
    def read(self, memory: RecurrentMemory) -> Source:
        """The keys, values and mask that each step attends to, computed once from the memory."""

    @abstractmethod
    def forward(
        self, ids: Int64[Tensor, "batch new_len"], source: Source, state: DecoderState
    ) -> tuple[Float[Tensor, "batch new_len d_embedding"], DecoderState]:
        """The output for each of `ids`, which predicts the next id, and the state after them."""


class ContextDecoder(RecurrentDecoder):
    """A decoder that reads one vector at each step: the top layer's initial state (Cho et al. 2014).

    The prediction comes from a maxout of state, context and last id (Goodfellow et al. 2013).
    """

    def __init__(self, config: RecurrentConfig, d_context: int) -> None:
        super().__init__(config, d_feed=d_context)
        widths = config.d_model + d_context + config.d_embedding
        self.readout = StackedLinear(widths, (config.d_embedding,) * 2)

    def read(self, memory: RecurrentMemory) -> Source:
        context = top_state(memory.initial)[:, None]  # the only key; masked if the source is empty
        return Source(context, context, memory.mask.any(dim=2, keepdim=True))

    def forward(
        self, ids: Int64[Tensor, "batch new_len"], source: Source, state: DecoderState
    ) -> tuple[Float[Tensor, "batch new_len d_embedding"], DecoderState]:
        x = self.dropout(self.embedding(ids))
        hidden, contexts, layers = self._states_and_contexts(self.stack.read(x), source, state.layers)
        first, second = self.readout(torch.cat([hidden, contexts, x], dim=2)).chunk(2, dim=2)
        after = DecoderState(layers, length=state.length + ids.size(1))
        return self.dropout(torch.maximum(first, second)), after

    def _states_and_contexts(
        self, inputs: Tensor, source: Source, layers: States
    ) -> tuple[Tensor, Tensor, States]:
        """The top layer's states, their contexts, and the states of all layers at the end."""
        assert self.feed is not None
        hidden, layers = self.stack(inputs + self.feed(source.values), layers)
        return hidden, source.values.expand(-1, inputs.size(1), -1), layers


class BahdanauDecoder(ContextDecoder):
    """A decoder with attention from the last state before each step (Bahdanau et al. 2015, eqs. 4 to 6)."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, d_context=config.d_memory)
        self.attention = _attention(config)

    def read(self, memory: RecurrentMemory) -> Source:
        return Source(self.attention.read(memory.hidden), memory.hidden, memory.mask)

    def _states_and_contexts(
        self, inputs: Tensor, source: Source, layers: States
    ) -> tuple[Tensor, Tensor, States]:
        assert self.feed is not None
        hidden, contexts = [], []
        for step_inputs in inputs.unbind(1):
            query = top_state(layers)[:, None]
            context = self.attention(query, source.keys, source.values, source.mask)[:, 0]
            layers = self.stack.step(step_inputs + self.feed(context), layers)
            hidden.append(top_state(layers))
            contexts.append(context)
        return torch.stack(hidden, dim=1), torch.stack(contexts, dim=1), layers


class LuongDecoder(RecurrentDecoder):
    """A decoder with attention from the new state after each step (Luong et al. 2015).

    The attentional vector tanh(W [context; state]) predicts the next id (equation 5). With input feeding the
    next step reads it too (section 3.3).
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, d_feed=config.d_embedding if config.input_feeding else None)
        self.attention = _attention(config)
        self.readout = nn.Linear(config.d_memory + config.d_model, config.d_embedding)

    def read(self, memory: RecurrentMemory) -> Source:
        return Source(self.attention.read(memory.hidden), memory.hidden, memory.mask)

    def start(self, memory: RecurrentMemory) -> DecoderState:
        layers = super().start(memory).layers
        if self.feed is None:
            return DecoderState(layers)
        hidden = layers[0][0]
        return DecoderState(layers, hidden.new_zeros(hidden.size(0), self.readout.out_features))

    def forward(
        self, ids: Int64[Tensor, "batch new_len"], source: Source, state: DecoderState
    ) -> tuple[Float[Tensor, "batch new_len d_embedding"], DecoderState]:
        inputs, length = self.stack.read(self.dropout(self.embedding(ids))), state.length + ids.size(1)
        if self.feed is None:
            hidden, layers = self.stack(inputs, state.layers)
            return self._attentional(hidden, source), DecoderState(layers, length=length)
        layers, last_output, outputs = state.layers, state.last_output, []
        for step_inputs in inputs.unbind(1):
            layers = self.stack.step(step_inputs + self.feed(last_output), layers)
            last_output = self._attentional(top_state(layers)[:, None], source)[:, 0]
            outputs.append(last_output)
        return torch.stack(outputs, dim=1), DecoderState(layers, last_output, length)

    def _attentional(self, hidden: Tensor, source: Source) -> Tensor:
        """The attentional vector of each state."""
        context = self.attention(hidden, source.keys, source.values, source.mask)
        return self.dropout(self.readout(torch.cat([context, hidden], dim=2)).tanh())


def _attention(config: RecurrentConfig) -> SourceAttention:
    assert config.attention != "none"
    return SCORINGS[config.attention](config.d_model, config.d_memory)


def _decoder(config: RecurrentConfig) -> RecurrentDecoder:
    if config.attention == "none":
        return ContextDecoder(config, config.d_model)
    return LuongDecoder(config) if config.attention in LUONG else BahdanauDecoder(config)


class Recurrent(SequenceToSequence):
    """A recurrent encoder-decoder. The encoder skips source padding, and attention masks it."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config: RecurrentConfig = config
        self.encoder = RecurrentEncoder(config)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.d_embedding, config.tgt_vocab_size, bias=config.output_bias)
        if config.tied == "all":
            self.decoder.embedding.weight = self.encoder.embedding.weight
        if config.tied != "none":
            self.output.weight = self.decoder.embedding.weight

    def encode(
        self, src_ids: Int64[Tensor, "batch src_len"], src_lengths: Int[Tensor, " batch"]
    ) -> RecurrentMemory:
        rows = src_ids.size(0)
        if not self.training and rows % BATCH_MULTIPLE:
            count = rows + BATCH_MULTIPLE - rows % BATCH_MULTIPLE
            repeated = torch.arange(count, device=src_ids.device) % rows
            src_ids, src_lengths = src_ids[repeated], src_lengths[repeated]
        mask = padding_mask(src_lengths, src_ids.size(1))[:, 0]
        hidden, initial = self.encoder(src_ids, mask[:, 0])
        initial = tuple(tuple(part[:rows] for part in state) for state in initial)
        return RecurrentMemory(hidden[:rows], mask[:rows], initial)

    def decoder_states(
        self, tgt_ids: Int64[Tensor, "batch tgt_len"], memory: RecurrentMemory
    ) -> Float[Tensor, "batch tgt_len d_embedding"]:
        return self.decoder(tgt_ids, self.decoder.read(memory), self.decoder.start(memory))[0]

    def project(self, hidden: Float[Tensor, "*batch d_embedding"]) -> Float[Tensor, "*batch vocab"]:
        """Decoder states -> logits."""
        return self.output(hidden)

    def start(self, memory: RecurrentMemory) -> RecurrentCache:
        """A cache with an empty target and the keys of the source."""
        return RecurrentCache(self.decoder.read(memory), self.decoder.start(memory))

    def extend(
        self, tgt_ids: Int64[Tensor, "rows new_len"], cache: RecurrentCache
    ) -> Float[Tensor, "rows new_len vocab"]:
        """The logits for `tgt_ids`, which follow the tokens in the cache. Updates the cache."""
        hidden, cache.state = self.decoder(tgt_ids, cache.source, cache.state)
        return self.project(hidden)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Xavier's initialisation, but matrices from state to state are orthogonal.

        (Bahdanau et al. 2015, appendix B.1.) The forget gate of an LSTM has bias 1 (Jozefowicz et al. 2015).
        """
        xavier(self, generator)
        for module in self.modules():
            if isinstance(module, RecurrentLayer):
                for matrix in matrices(module.hidden):
                    nn.init.orthogonal_(matrix, generator=generator)
            if isinstance(module, LSTM):
                module.input.bias.view(module.gates, -1)[LSTM.FORGET] = 1.0
