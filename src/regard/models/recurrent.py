"""Recurrent encoder-decoders: one context vector (Cho et al. 2014), Bahdanau's attention, Luong's."""

from abc import abstractmethod
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
from regard.models.sequence_to_sequence import SequenceToSequence

Tied = Literal["all", "target", "none"]
Attention = Literal["none", "additive", "dot", "general", "concat"]
LUONG = ("dot", "general", "concat")

# In evaluation the encoder reads a multiple of so many sentences, the first ones again to fill up: what it
# does with the rows of a step is then equal to the bit in every batch (see decoding/step.py).
ROWS = 16


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelConfig):
    """The settings of a recurrent encoder-decoder; the default has no attention."""

    kind: ClassVar[str] = "recurrent"
    generates: ClassVar[bool] = True
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # the bare context vector of Cho et al. 2014
        "rnn": {},
        # Bahdanau et al. 2015: both directions, and a look before each step
        "bahdanau": {"bidirectional": True, "attention": "additive"},
        # Luong et al. 2015: stacked LSTMs, general attention after each step (their best scoring, with local
        # windows; without, dot was better), and input feeding
        "luong": {"cell": "lstm", "num_layers": 2, "attention": "general", "input_feeding": True},
    }
    src_vocab_size: int
    tgt_vocab_size: int
    cell: Cell = "gru"
    num_layers: int = 1  # of the encoder, and of the decoder
    d_model: int = 512  # of each direction's states
    d_embedding: int = 256  # of tokens, and of what predicts them
    bidirectional: bool = False  # the encoder reads from both ends
    attention: Attention = "none"  # additive: Bahdanau's; dot, general, concat: Luong's
    input_feeding: bool = False  # Luong et al. 2015, section 3.3: a step is told what the last one found
    dropout: float = 0.3  # of embeddings, between layers, and of what predicts
    tied: Tied = "none"  # source embedding, target embedding, output weight: all one, the last two, none
    pad_id: int = 0

    def __post_init__(self) -> None:
        self.refuse_small("src_vocab_size", "tgt_vocab_size", "num_layers", "d_model", "d_embedding")
        self.refuse_no_share("dropout")
        if self.tied == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f"tied = 'all' needs one vocabulary, but the source has {self.src_vocab_size} tokens"
                f" and the target {self.tgt_vocab_size}",
                "use a joint tokeniser, or tied = 'target'",
            )
        if self.input_feeding and self.attention not in LUONG:
            raise ConfigError(
                f"input_feeding goes with {', '.join(LUONG)}, not with attention = {self.attention!r}",
                "leave input_feeding out: this decoder is told its context at each step as it is",
            )
        if self.attention == "dot" and self.bidirectional:
            raise ConfigError(
                "attention = 'dot' needs states of equal width; those of two directions are twice as wide",
                "use attention = 'general', or bidirectional = false",
            )
        self.refuse_no_token("pad_id", self.src_vocab_size, self.tgt_vocab_size)

    @property
    def d_memory(self) -> int:
        """The width of what the encoder says of a position."""
        return self.d_model * (1 + self.bidirectional)


@dataclass(frozen=True)
class Memory:
    """The source as the encoder has understood it, position by position and as a whole."""

    hidden: Float[Tensor, "batch src_len d_memory"]
    mask: Bool[Tensor, "batch 1 src_len"]
    last: States  # of each layer after the last token, as wide as the decoder's

    def select(self, rows: Int64[Tensor, " rows"]) -> "Memory":
        """Row i becomes what row `rows[i]` was."""
        return Memory(self.hidden[rows], self.mask[rows], _selected(self.last, rows))


@dataclass(frozen=True)
class Source:
    """What a decoder looks at in each of its steps."""

    keys: Float[Tensor, "batch src_len d_key"]
    values: Float[Tensor, "batch src_len d_memory"]
    mask: Bool[Tensor, "batch 1 src_len"]

    def select(self, rows: Int64[Tensor, " rows"]) -> "Source":
        return Source(self.keys[rows], self.values[rows], self.mask[rows])


@dataclass(frozen=True)
class DecoderState:
    """What a decoder remembers: the states of its layers, and what it is told of its last step."""

    layers: States
    fed: Float[Tensor, "batch d_embedding"] | None = None

    def select(self, rows: Int64[Tensor, " rows"]) -> "DecoderState":
        return DecoderState(_selected(self.layers, rows), None if self.fed is None else self.fed[rows])


def _selected(states: tuple[tuple[Tensor, ...], ...], rows: Tensor) -> States:
    return tuple(tuple(part[rows] for part in state) for state in states)


class RecurrentCache:
    """What stays between steps, one row a hypothesis: what was made of the source, and the state.

    `select` drops, repeats and reorders rows in place. Rows of one sentence share its source, so only a
    change of sentences moves that.
    """

    def __init__(self, source: Source, state: DecoderState) -> None:
        self.source, self.state, self.length = source, state, 0
        self._sentences = torch.arange(len(source.mask), device=source.mask.device)

    def select(self, rows: Int64[Tensor, " rows"]) -> "RecurrentCache":
        """Row i becomes what row `rows[i]` was."""
        self.state = self.state.select(rows)
        sentences = self._sentences[rows]
        if not torch.equal(sentences, self._sentences):
            self._sentences, self.source = sentences, self.source.select(rows)
        return self


class Encoder(nn.Module):
    """Source ids -> a state a position, which has read the sentence up to there, and from there on.

    The decoder begins with the last states where these are of one direction (Sutskever et al. 2014), and
    with tanh(W [forward; backward]) where they are of two (Bahdanau et al. 2015 take the backward one's).
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(config.src_vocab_size, config.d_embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                CELLS[config.cell](config.d_memory if above else config.d_embedding, config.d_model)
                for _ in range(1 + config.bidirectional)
            )
            for above in range(config.num_layers)
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
        """The top layer's states, directions side by side; for each layer, where the decoder begins."""
        x, last = self.embedding(ids), []
        for number, directions in enumerate(self.layers):
            x, state = self._read(self.dropout(x), mask, cast(Iterable[RecurrentLayer], directions))
            last.append(self._bridged(state, number))
        return x, tuple(last)

    def _read(
        self, x: Tensor, mask: Tensor, directions: Iterable[RecurrentLayer]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        hidden, last = [], []
        for number, layer in enumerate(directions):
            outputs, state = layer(layer.input(x), layer.start(x[:, 0]), mask, backward=number == 1)
            hidden.append(outputs)
            last.append(state)
        return torch.cat(hidden, dim=2), tuple(torch.cat(parts, dim=1) for parts in zip(*last, strict=True))

    def _bridged(self, state: tuple[Tensor, ...], layer: int) -> State:
        if self.bridge is None:
            return state
        linears = cast(nn.ModuleList, self.bridge[layer])
        return tuple(linear(part).tanh() for linear, part in zip(linears, state, strict=True))


class Decoder(nn.Module):
    """Target ids, each knowing those before it -> what predicts the next id; how it looks, others say."""

    def __init__(self, config: RecurrentConfig, d_fed: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(config.tgt_vocab_size, config.d_embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.stack = RecurrentStack(
            config.cell, config.num_layers, config.d_embedding, config.d_model, config.dropout
        )
        self.feed = None
        if d_fed:
            self.feed = StackedLinear(d_fed, (config.d_model,) * self.stack.gates, bias=False)

    def start(self, memory: Memory) -> DecoderState:
        """Before the first id."""
        return DecoderState(memory.last)

    @abstractmethod
    def read(self, memory: Memory) -> Source:
        """What this decoder looks at, made of the memory once."""

    @abstractmethod
    def forward(
        self, ids: Int64[Tensor, "batch new_len"], source: Source, state: DecoderState
    ) -> tuple[Float[Tensor, "batch new_len d_embedding"], DecoderState]:
        """What predicts the id after each of `ids`, and the state after them."""


class ContextDecoder(Decoder):
    """The whole source is one vector, the encoder's last state, told at every step (Cho et al. 2014).

    What predicts is a maxout of state, context and last id (Goodfellow et al. 2013), as in both papers.
    """

    def __init__(self, config: RecurrentConfig, d_context: int) -> None:
        super().__init__(config, d_fed=d_context)
        widths = config.d_model + d_context + config.d_embedding
        self.readout = StackedLinear(widths, (config.d_embedding,) * 2)

    def read(self, memory: Memory) -> Source:
        context = memory.last[-1][0][:, None]
        return Source(context, context, memory.mask.any(dim=2, keepdim=True))

    def forward(
        self, ids: Int64[Tensor, "batch new_len"], source: Source, state: DecoderState
    ) -> tuple[Float[Tensor, "batch new_len d_embedding"], DecoderState]:
        x = self.dropout(self.embedding(ids))
        hidden, contexts, layers = self._run(self.stack.read(x), source, state.layers)
        first, second = self.readout(torch.cat([hidden, contexts, x], dim=2)).chunk(2, dim=2)
        return self.dropout(torch.maximum(first, second)), DecoderState(layers)

    def _run(self, inputs: Tensor, source: Source, layers: States) -> tuple[Tensor, Tensor, States]:
        """The top layer's states, the context of each, and all layers' states at the end."""
        assert self.feed is not None
        hidden, layers = self.stack(inputs + self.feed(source.values), layers)
        return hidden, source.values.expand(-1, inputs.size(1), -1), layers


class BahdanauDecoder(ContextDecoder):
    """Before each step the last state looks for its context (Bahdanau et al. 2015, equations 4 to 6)."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, d_context=config.d_memory)
        self.attention = _attention(config)

    def read(self, memory: Memory) -> Source:
        return Source(self.attention.read(memory.hidden), memory.hidden, memory.mask)

    def _run(self, inputs: Tensor, source: Source, layers: States) -> tuple[Tensor, Tensor, States]:
        assert self.feed is not None
        hidden, contexts = [], []
        for inputs_here in inputs.unbind(1):
            context = self.attention(layers[-1][0][:, None], source.keys, source.values, source.mask)[:, 0]
            layers = self.stack.step(inputs_here + self.feed(context), layers)
            hidden.append(layers[-1][0])
            contexts.append(context)
        return torch.stack(hidden, dim=1), torch.stack(contexts, dim=1), layers


class LuongDecoder(Decoder):
    """After each step the new state looks; tanh(W [context; state]) predicts (Luong et al. 2015, eq. 5).

    With input feeding the next step is told that too (section 3.3).
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, d_fed=config.d_embedding if config.input_feeding else 0)
        self.attention = _attention(config)
        self.readout = nn.Linear(config.d_memory + config.d_model, config.d_embedding)

    def read(self, memory: Memory) -> Source:
        return Source(self.attention.read(memory.hidden), memory.hidden, memory.mask)

    def start(self, memory: Memory) -> DecoderState:
        layers = super().start(memory).layers
        if self.feed is None:
            return DecoderState(layers)
        hidden = layers[0][0]
        return DecoderState(layers, hidden.new_zeros(hidden.size(0), self.readout.out_features))

    def forward(
        self, ids: Int64[Tensor, "batch new_len"], source: Source, state: DecoderState
    ) -> tuple[Float[Tensor, "batch new_len d_embedding"], DecoderState]:
        inputs = self.stack.read(self.dropout(self.embedding(ids)))
        if self.feed is None:
            hidden, layers = self.stack(inputs, state.layers)
            return self._found(hidden, source), DecoderState(layers)
        layers, fed, found = state.layers, state.fed, []
        for inputs_here in inputs.unbind(1):
            layers = self.stack.step(inputs_here + self.feed(fed), layers)
            fed = self._found(layers[-1][0][:, None], source)[:, 0]
            found.append(fed)
        return torch.stack(found, dim=1), DecoderState(layers, fed)

    def _found(self, hidden: Tensor, source: Source) -> Tensor:
        """The attentional vector of each state."""
        context = self.attention(hidden, source.keys, source.values, source.mask)
        return self.dropout(self.readout(torch.cat([context, hidden], dim=2)).tanh())


def _attention(config: RecurrentConfig) -> SourceAttention:
    assert config.attention != "none"
    return SCORINGS[config.attention](config.d_model, config.d_memory)


def _decoder(config: RecurrentConfig) -> Decoder:
    if config.attention in LUONG:
        return LuongDecoder(config)
    return ContextDecoder(config, config.d_model) if config.attention == "none" else BahdanauDecoder(config)


class Recurrent(SequenceToSequence):
    """What came before the Transformer, and what attention was made for.

    Padding of the source is passed over by the encoder and masked for the attention.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config: RecurrentConfig = config
        self.encoder = Encoder(config)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.d_embedding, config.tgt_vocab_size, bias=False)
        if config.tied == "all":
            self.decoder.embedding.weight = self.encoder.embedding.weight
        if config.tied != "none":
            self.output.weight = self.decoder.embedding.weight

    def encode(self, src_ids: Int64[Tensor, "batch src_len"], src_lengths: Int[Tensor, " batch"]) -> Memory:
        rows = src_ids.size(0)
        if not self.training and rows % ROWS:
            company = torch.arange(rows + ROWS - rows % ROWS, device=src_ids.device) % rows
            src_ids, src_lengths = src_ids[company], src_lengths[company]
        mask = padding_mask(src_lengths, src_ids.size(1))[:, 0]
        hidden, last = self.encoder(src_ids, mask[:, 0])
        last = tuple(tuple(part[:rows] for part in state) for state in last)
        return Memory(hidden[:rows], mask[:rows], last)

    def decoder_states(
        self, tgt_ids: Int64[Tensor, "batch tgt_len"], memory: Memory
    ) -> Float[Tensor, "batch tgt_len d_embedding"]:
        return self.decoder(tgt_ids, self.decoder.read(memory), self.decoder.start(memory))[0]

    def project(self, hidden: Float[Tensor, "*batch d_embedding"]) -> Float[Tensor, "*batch vocab"]:
        """Decoder states -> logits."""
        return self.output(hidden)

    def start(self, memory: Memory) -> RecurrentCache:
        """An empty target beside the memory, whose keys are made here, once."""
        return RecurrentCache(self.decoder.read(memory), self.decoder.start(memory))

    def extend(
        self, tgt_ids: Int64[Tensor, "rows new_len"], cache: RecurrentCache
    ) -> Float[Tensor, "rows new_len vocab"]:
        """What `decode` gives for these ids after those that the cache has read; it reads them too."""
        hidden, cache.state = self.decoder(tgt_ids, cache.source, cache.state)
        cache.length += tgt_ids.size(1)
        return self.project(hidden)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Xavier, as all models; what turns a state into the next is orthogonal (Bahdanau et al., B.1),
        and an LSTM begins with forget gates that are open (Jozefowicz et al. 2015)."""
        xavier(self, generator)
        for module in self.modules():
            if isinstance(module, RecurrentLayer):
                for matrix in matrices(module.hidden):
                    nn.init.orthogonal_(matrix, generator=generator)
            if isinstance(module, LSTM):
                module.input.bias.view(module.gates, -1)[1] = 1.0
