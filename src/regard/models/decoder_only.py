"""Decoder-only Transformers: language models such as GPT-2 (Radford et al. 2019) and Llama."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from regard.layers.block import EncoderBlock, NormPosition
from regard.layers.cache import StackCache
from regard.layers.feedforward import Activation
from regard.layers.masks import causal_mask, document_mask, window_mask
from regard.models import parts
from regard.models.config import TransformerConfig
from regard.models.initialise import normal
from regard.models.model import Model


@dataclass(frozen=True, kw_only=True)
class DecoderOnlyConfig(TransformerConfig):
    """The settings of a decoder-only model; the defaults are those of the smallest GPT-2."""

    kind: ClassVar[str] = "decoder_only"
    generates: ClassVar[bool] = True
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Radford et al. 2019, table 2
        "gpt2": {},
        "gpt2-medium": {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "num_layers": 24},
        "gpt2-large": {"d_model": 1280, "num_heads": 20, "d_ff": 5120, "num_layers": 36},
        "gpt2-xl": {"d_model": 1600, "num_heads": 25, "d_ff": 6400, "num_layers": 48},
        # nanoGPT's two configurations for Tiny Shakespeare: for a GPU, for a laptop
        "baby": {
            "d_model": 384,
            "num_heads": 6,
            "d_ff": 1536,
            "num_layers": 6,
            "max_positions": 256,
            "dropout": 0.2,
            "attention_dropout": 0.2,
            "bias": False,
        },
        "nano": {
            "d_model": 128,
            "num_heads": 4,
            "d_ff": 512,
            "num_layers": 4,
            "max_positions": 64,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "bias": False,
        },
    }
    vocab_size: int
    d_model: int = 768
    num_heads: int = 12
    num_layers: int = 12
    d_ff: int = 3072
    norm_position: NormPosition = "pre"
    activation: Activation = "gelu"
    positions: str = "learned"
    attention_dropout: float = 0.1
    window: int | None = None  # positions that a position attends to, itself included; None: all before it
    scaled_embedding: bool = False  # multiply embeddings by sqrt(d_model)
    tied: bool = True  # the output weight is the embedding
    trained_length: int | None = None  # tokens of a training sequence; None: unknown

    def __post_init__(self) -> None:
        self.require_positive("vocab_size", "num_layers", "window", "trained_length")
        super().__post_init__()


class DecoderOnly(Model):
    """Ids -> logits of the next id at each position.

    Padding on the right needs no mask, because attention is causal.
    """

    def __init__(self, config: DecoderOnlyConfig) -> None:
        super().__init__()
        self.config: DecoderOnlyConfig = config
        rotary = parts.rotary(config)
        self.input = parts.InputEmbedding(config, config.vocab_size, scaled=config.scaled_embedding)
        self.position_bias = parts.position_bias(config, bidirectional=False)
        self.blocks = nn.ModuleList(parts.encoder_block(config, rotary) for _ in range(config.num_layers))
        self.norm = parts.final_norm(config)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tied:
            self.output.weight = self.input.embedding.weight

    def forward(
        self, ids: Int64[Tensor, "batch len"], documents: Int64[Tensor, "batch len"] | None = None
    ) -> Float[Tensor, "batch len vocab"]:
        """Logits of the next ids. `documents` numbers the document of each position of a packed row.

        Documents do not attend to each other, and positions are counted from the start of each document,
        whose ids must be contiguous.
        """
        return self.project(self.states(ids, documents))

    def states(
        self,
        ids: Int64[Tensor, "batch len"],
        documents: Int64[Tensor, "batch len"] | None = None,
        cache: StackCache | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        """The states from which `project` predicts the next ids. With a `cache`, `ids` follow its own."""
        if documents is not None and cache is not None:
            raise ValueError("a cache holds one document: pass documents or a cache, not both")
        start, held, caches = 0, 0, [None] * len(self.blocks)
        if cache is not None:
            start, held, caches = cache.length, cache.held, cache.layers
        new_len, key_len = ids.size(1), held + ids.size(1)
        mask = self._mask(new_len, key_len, ids.device)
        if mask is not None and documents is not None:
            mask = mask & document_mask(documents)
        bias = self.position_bias(new_len, key_len) if self.position_bias is not None else None
        x = self.input(ids, start, documents)
        for block, block_cache in zip(self.blocks, caches, strict=True):
            x = block(x, mask, bias, block_cache)
        return self.norm(x)

    def _mask(
        self, new_len: int, key_len: int, device: torch.device
    ) -> Bool[Tensor, "1 1 {new_len} {key_len}"] | None:
        """The causal mask of the last `new_len` positions; None for one, which attends to the whole cache."""
        if new_len == 1:
            return None
        if self.config.window is None:
            return causal_mask(new_len, key_len, device=device)
        return window_mask(new_len, self.config.window, key_len, device=device)

    def project(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """States -> logits."""
        return self.output(hidden)

    def start(self) -> StackCache:
        """An empty cache; the first ids determine its number of rows."""
        return StackCache(self.config.num_layers, self.config.window)

    def extend(
        self, ids: Int64[Tensor, "rows new_len"], cache: StackCache
    ) -> Float[Tensor, "rows new_len vocab"]:
        """The logits of `forward` for `ids` that follow those in the cache, to which they are added."""
        return self.project(self.states(ids, cache=cache))

    @property
    def max_length(self) -> int | None:
        """The greatest length that the model can read; None without a limit."""
        return self.config.position_limit

    @property
    def trained_length(self) -> int | None:
        """The length of training sequences, at most `max_length`; None if unknown."""
        known = (self.config.trained_length, self.max_length)
        return min((length for length in known if length is not None), default=None)

    @property
    def d_head(self) -> int:
        return self.config.d_head

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """N(0, 0.02^2); the output weights of the 2 L sub-layers are divided by sqrt(2 L) (GPT-2)."""
        normal(self, generator)
        for block in cast(Iterable[EncoderBlock], self.blocks):
            for last in (block.self_attention.output, block.feed_forward.outer):
                cast(nn.Linear, last).weight /= (2 * self.config.num_layers) ** 0.5
