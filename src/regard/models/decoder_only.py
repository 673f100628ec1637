"""Decoder-only Transformers: language models such as GPT-2 (Radford et al. 2019) and Llama."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.block import EncoderBlock, NormPosition
from regard.layers.cache import StackCache
from regard.layers.masks import causal_mask, document_mask, window_mask
from regard.layers.softcapped import SoftcappedLinear
from regard.models import parts
from regard.models.initialise import normal
from regard.models.model import Model
from regard.models.positions import added_bias, position_bias
from regard.models.windows import WindowConfig


@dataclass(frozen=True, kw_only=True)
class DecoderOnlyConfig(WindowConfig):
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
    vocab_size: int  # tokens of the vocabulary; follows from the tokeniser
    d_model: int = 768
    num_heads: int = 12
    d_ff: int = 3072
    norm_position: NormPosition = "pre"
    activation: str = "gelu"
    positions: str = "learned"
    attention_dropout: float = 0.1
    parallel_residual: parts.ParallelResidual | None = None  # attention and feed-forward network side by side
    attention_softcap: float | None = None  # attention scores are soft-capped at this number
    logit_softcap: float | None = None  # logits are soft-capped at this number
    scaled_embedding: bool = False  # multiply embeddings by sqrt(d_model)
    tied: bool = True  # the output weight is the embedding
    output_bias: bool = False  # the output layer has a bias
    trained_length: int | None = None  # tokens of a training sequence; None: unknown

    def __post_init__(self) -> None:
        self.require_positive("vocab_size", "trained_length")
        super().__post_init__()
        for name in ("attention_softcap", "logit_softcap"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} = {value} is out of range", f"{name} must be above 0")
        if self.parallel_residual is not None and self.norm_position != "pre":
            raise ConfigError(
                f"parallel_residual = {self.parallel_residual!r}, but norm_position = {self.norm_position!r}",
                "blocks with parallel residuals are pre-norm: norm_position = 'pre'",
            )


class DecoderOnly(Model):
    """Ids -> logits of the next id at each position.

    Padding on the right needs no mask, because attention is causal.
    """

    def __init__(self, config: DecoderOnlyConfig) -> None:
        super().__init__()
        self.config: DecoderOnlyConfig = config
        self.input = parts.InputEmbedding(config, config.vocab_size, scaled=config.scaled_embedding)
        self.position_bias = position_bias(config, bidirectional=False)
        self.blocks = parts.encoder_blocks(
            config, parallel=config.parallel_residual, softcap=config.attention_softcap
        )
        self.norm = parts.final_norm(config)
        self.output = _output(config)
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
        start, caches = 0, [None] * len(self.blocks)
        if cache is not None:
            start, caches = cache.length, cache.layers
        masks: dict[int | None, tuple[Tensor | None, Tensor | None]] = {}
        x = self.input(ids, start, documents)
        for block, block_cache in zip(self.blocks, caches, strict=True):
            window = cast(EncoderBlock, block).window
            if window not in masks:
                held = 0 if block_cache is None else block_cache.held
                masks[window] = self._mask_and_bias(ids, held, window, documents)
            x = block(x, *masks[window], block_cache)
        return self.norm(x)

    def _mask_and_bias(
        self, ids: Tensor, held: int, window: int | None, documents: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """The mask, and the bias of positions, of the layers with this window; `held`: in their caches."""
        new_len, key_len = ids.size(1), held + ids.size(1)
        mask = _mask(new_len, key_len, window, ids.device)
        if mask is not None and documents is not None:
            mask = mask & document_mask(documents)
        return mask, added_bias(self.position_bias, new_len, key_len)

    def project(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """States -> logits."""
        return self.output(hidden)

    def start(self, first: int = 0) -> StackCache:
        """An empty cache; the first ids determine its number of rows, and begin at position `first`."""
        return StackCache(self.config.windows, first)

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
            network = block.feed_forward
            own = [] if getattr(network, "initialises_itself", False) else [network.outer]
            for last in (block.self_attention.output, *own):
                cast(nn.Linear, last).weight /= (2 * self.config.num_layers) ** 0.5


def _mask(
    new_len: int, key_len: int, window: int | None, device: torch.device
) -> Bool[Tensor, "1 1 {new_len} {key_len}"] | None:
    """The causal mask of the last `new_len` positions; None for one, which attends to the whole cache."""
    if new_len == 1:
        return None
    if window is None:
        return causal_mask(new_len, key_len, device=device)
    return window_mask(new_len, window, key_len, device=device)


def _output(config: DecoderOnlyConfig) -> nn.Linear:
    """States -> logits."""
    if config.logit_softcap is None:
        return nn.Linear(config.d_model, config.vocab_size, config.output_bias)
    return SoftcappedLinear(config.d_model, config.vocab_size, config.output_bias, cap=config.logit_softcap)
