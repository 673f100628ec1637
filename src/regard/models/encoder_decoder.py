"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), with later variants."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.block import DecoderBlock
from regard.layers.cache import DecoderCache, KeyValue, KeyValueCache
from regard.layers.masks import causal_mask, padding_mask
from regard.models import parts
from regard.models.config import TransformerConfig
from regard.models.initialise import xavier
from regard.models.positions import added_bias, position_bias, rotary_positions
from regard.models.sequence_to_sequence import SequenceToSequence

Tied = Literal["all", "target", "embeddings", "none"]


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(TransformerConfig):
    """The settings of an encoder-decoder; the defaults are the paper's base model."""

    kind: ClassVar[str] = "encoder_decoder"
    generates: ClassVar[bool] = True
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Vaswani et al. 2017, table 3
        "base": {},
        "big": {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3},
        # fairseq's transformer_iwslt_de_en: some 160,000 pairs
        "medium": {"num_heads": 4, "d_ff": 1024, "dropout": 0.3},
        # trains on a laptop in an hour
        "small": {
            "d_model": 256,
            "num_heads": 4,
            "d_ff": 1024,
            "num_encoder_layers": 3,
            "num_decoder_layers": 3,
        },
        # Wu et al. 2021, for Multi30k: some 30,000 pairs
        "tiny": {
            "d_model": 128,
            "num_heads": 4,
            "d_ff": 256,
            "num_encoder_layers": 4,
            "num_decoder_layers": 4,
            "dropout": 0.3,
        },
    }
    src_vocab_size: int  # tokens of the source vocabulary; follows from the tokeniser
    tgt_vocab_size: int  # tokens of the target vocabulary; follows from the tokeniser
    num_encoder_layers: int = 6  # blocks of the encoder
    num_decoder_layers: int = 6  # blocks of the decoder
    tied: Tied = "all"  # "target": target embedding and output; "embeddings": source and target embedding
    scaled_embedding: bool = True  # multiply embeddings by sqrt(d_model)
    embedding_norm: bool = False  # normalise the sum of embeddings and positions
    scaled_output: bool = False  # divide decoder states by sqrt(d_model) before the output, as T5 1.0 does
    output_bias: bool = False  # the output layer has a bias
    source_end: bool = True  # False: the end token of a source is not attended to, as if it were absent
    pad_id: int = 0  # the token that fills shorter rows of a batch

    def __post_init__(self) -> None:
        self.require_positive("src_vocab_size", "tgt_vocab_size", "num_encoder_layers", "num_decoder_layers")
        super().__post_init__()
        if self.tied in ("all", "embeddings") and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f"tied = {self.tied!r} needs one vocabulary, but the source has {self.src_vocab_size} tokens"
                f" and the target {self.tgt_vocab_size}",
                "use a joint tokeniser, or tied = 'target'",
            )
        self.require_token_id("pad_id", self.src_vocab_size, self.tgt_vocab_size)


@dataclass(frozen=True)
class Memory:
    """The encoder's states of the source, and their padding mask."""

    hidden: Float[Tensor, "batch src_len d_model"]
    mask: Bool[Tensor, "batch 1 1 src_len"]

    def select(self, rows: Int64[Tensor, " rows"]) -> "Memory":
        """A memory whose row i is row `rows[i]` of this one."""
        return Memory(self.hidden[rows], self.mask[rows])


class Encoder(nn.Module):
    """Source ids -> one state for each position, from attention to the whole source."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        rotary = rotary_positions(config)
        self.input = _input(config, config.src_vocab_size)
        self.position_bias = position_bias(config, bidirectional=True)
        self.blocks = nn.ModuleList(
            parts.encoder_block(config, rotary) for _ in range(config.num_encoder_layers)
        )
        self.norm = parts.final_norm(config)

    def forward(
        self, ids: Int64[Tensor, "batch src_len"], mask: Bool[Tensor, "batch 1 1 src_len"]
    ) -> Float[Tensor, "batch src_len d_model"]:
        x = self.input(ids)
        bias = added_bias(self.position_bias, ids.size(1), ids.size(1))
        for block in self.blocks:
            x = block(x, mask, bias)
        return self.norm(x)


class Decoder(nn.Module):
    """Target ids and memory -> states that predict the next ids."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        rotary = rotary_positions(config)
        self.input = _input(config, config.tgt_vocab_size)
        self.position_bias = position_bias(config, bidirectional=False)
        self.blocks = nn.ModuleList(
            parts.decoder_block(config, rotary) for _ in range(config.num_decoder_layers)
        )
        self.norm = parts.final_norm(config)
        self.scale = config.d_model**-0.5 if config.scaled_output else 1.0

    def read(self, memory: Float[Tensor, "batch src_len d_model"]) -> list[KeyValue]:
        """The cross-attention keys and values of each block."""
        return [block.read(memory) for block in cast(Iterable[DecoderBlock], self.blocks)]

    def forward(
        self,
        ids: Int64[Tensor, "batch new_len"],
        memories: Sequence[Tensor | KeyValue],
        memory_mask: Bool[Tensor, "batch 1 1 src_len"],
        caches: Sequence[KeyValueCache | None],
    ) -> Float[Tensor, "batch new_len d_model"]:
        """`memories` and `caches` have one entry for each block; a cached block continues its cache."""
        start = 0 if caches[0] is None else caches[0].length
        new_len, key_len = ids.size(1), start + ids.size(1)
        mask = causal_mask(new_len, key_len, device=ids.device) if new_len > 1 else None
        bias = added_bias(self.position_bias, new_len, key_len)
        x = self.input(ids, start)
        for block, memory, cache in zip(self.blocks, memories, caches, strict=True):
            x = block(x, memory, mask, memory_mask, bias, cache)
        return self.norm(x) if self.scale == 1.0 else self.norm(x) * self.scale


def _input(config: EncoderDecoderConfig, vocab_size: int) -> parts.InputEmbedding:
    return parts.InputEmbedding(
        config, vocab_size, scaled=config.scaled_embedding, normed=config.embedding_norm
    )


class EncoderDecoder(SequenceToSequence):
    """The encoder-decoder Transformer (Vaswani et al. 2017, figure 1).

    Source padding is masked by its lengths. Target padding needs no mask, because attention is causal.
    """

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config: EncoderDecoderConfig = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        if config.tied in ("all", "embeddings"):
            self.decoder.input.embedding.weight = self.encoder.input.embedding.weight
        if config.tied in ("all", "target"):
            self.output.weight = self.decoder.input.embedding.weight

    def encode(self, src_ids: Int64[Tensor, "batch src_len"], src_lengths: Int[Tensor, " batch"]) -> Memory:
        mask = self.memory_mask(src_lengths, src_ids.size(1))
        return Memory(self.encoder(src_ids, mask), mask)

    def memory_mask(
        self, src_lengths: Int[Tensor, " batch"], src_len: int
    ) -> Bool[Tensor, "batch 1 1 {src_len}"]:
        """The mask of encoder and cross-attention: False at padding, and at ends if they are not read."""
        return padding_mask(attended_lengths(src_lengths, source_end=self.config.source_end), src_len)

    def decoder_states(
        self, tgt_ids: Int64[Tensor, "batch tgt_len"], memory: Memory
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        layers = len(self.decoder.blocks)
        return self.decoder(tgt_ids, [memory.hidden] * layers, memory.mask, [None] * layers)

    def project(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Decoder states -> logits."""
        return self.output(hidden)

    def start(self, memory: Memory) -> DecoderCache:
        """A cache with an empty target and each block's cross-attention keys and values."""
        return DecoderCache(self.decoder.read(memory.hidden), memory.mask)

    def extend(
        self, tgt_ids: Int64[Tensor, "rows new_len"], cache: DecoderCache
    ) -> Float[Tensor, "rows new_len vocab"]:
        """The logits of `decode` for `tgt_ids` that follow those in the cache, to which they are added."""
        return self.project(self.decoder(tgt_ids, cache.memories, cache.memory_mask, cache.targets))

    @property
    def max_length(self) -> int | None:
        return self.config.position_limit

    @property
    def d_head(self) -> int:
        return self.config.d_head

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self, generator)


def attended_lengths(src_lengths: Int[Tensor, " batch"], *, source_end: bool) -> Int[Tensor, " batch"]:
    """How many ids of each source are attended to: all, or all but its end, and at least one."""
    return src_lengths if source_end else (src_lengths - 1).clamp(min=1)
