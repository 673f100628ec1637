"""The encoder of texts: its settings, its embeddings, its blocks; models put a head on it."""

import dataclasses
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.block import EncoderBlock, PreNorm
from regard.layers.convolution import InputConvolution
from regard.layers.embedding import TokenEmbedding
from regard.layers.masks import window_mask
from regard.models import parts
from regard.models.positions import added_bias, added_positions, input_positions, position_bias
from regard.models.registered import made_norm
from regard.models.windows import WindowConfig


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(WindowConfig):
    """The settings of an encoder; the defaults are those of BERT's base model."""

    vocab_size: int  # tokens of the vocabulary; follows from the tokeniser
    d_model: int = 768
    num_heads: int = 12
    d_ff: int = 3072
    activation: str = "gelu"
    positions: str = "learned"
    max_positions: int = 512
    embedding_size: int | None = None  # width of the embeddings, which are projected; None: d_model
    num_token_types: int = 2  # segments of a text, such as question and answer; 0: no type embedding
    embedding_norm: bool = True  # normalise the sum of the embeddings
    input_convolution: int | None = None  # tokens that a convolution of the embeddings covers (odd); None: no
    first_norm: bool = True  # False: no norm before the first attention, as in ModernBERT
    attention_dropout: float = 0.1
    pad_id: int = 0  # the token that fills shorter rows of a batch

    def __post_init__(self) -> None:
        self.require_positive("vocab_size", "embedding_size", "input_convolution")
        super().__post_init__()
        self.require_token_id("pad_id", self.vocab_size)
        if not self.first_norm and self.norm_position != "pre":
            raise ConfigError(
                f"first_norm = false, but norm_position = {self.norm_position!r}", "norm_position = 'pre'"
            )
        if self.input_convolution is not None and self.input_convolution % 2 == 0:
            raise ConfigError(
                f"input_convolution = {self.input_convolution} is even: no token is in its middle",
                f"input_convolution = {self.input_convolution + 1}",
            )
        if self.num_token_types < 0:
            raise ConfigError(f"num_token_types = {self.num_token_types} is below 0", "0 means no types")


class EncoderInput(nn.Module):
    """The sum of token, position and token type embeddings; norm, dropout, and a projection to d_model."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_size or config.d_model
        self.embedding = TokenEmbedding(config.vocab_size, width, scaled=False)
        self.positions = input_positions(
            dataclasses.replace(config, d_model=width, head_dim=config.d_head, embedding_size=None)
        )
        self.token_types = None
        if config.num_token_types:
            self.token_types = TokenEmbedding(config.num_token_types, width, scaled=False)
        self.norm = made_norm(config, width) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.projection = nn.Linear(width, config.d_model) if width != config.d_model else nn.Identity()

    def forward(
        self, ids: Int64[Tensor, "batch len"], token_types: Int64[Tensor, "batch len"] | None = None
    ) -> Float[Tensor, "batch len d_model"]:
        """The embedded ids; without `token_types` all tokens have type 0."""
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + added_positions(self.positions, 0, ids.size(1), x.size(2))
        if self.token_types is not None:
            x = x + self.token_types(torch.zeros_like(ids) if token_types is None else token_types)
        elif token_types is not None:
            raise ValueError("the model has no token types (num_token_types = 0)")
        return self.projection(self.dropout(self.norm(x)))


class Encoder(nn.Module):
    """Ids -> one state for each position, from attention to the whole text."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.input = EncoderInput(config)
        width = config.input_convolution
        self.convolution = InputConvolution(config.d_model, width) if width is not None else None
        self.position_bias = position_bias(config, bidirectional=True)
        self.blocks = parts.encoder_blocks(config)
        if not config.first_norm:
            cast(PreNorm, cast(EncoderBlock, self.blocks[0]).around_self_attention).norm = nn.Identity()
        self.norm = parts.final_norm(config)

    def forward(
        self,
        ids: Int64[Tensor, "batch len"],
        mask: Bool[Tensor, "batch 1 1 len"],
        token_types: Int64[Tensor, "batch len"] | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        [last] = deque(self.states(ids, mask, token_types), maxlen=1)  # the others are freed as it runs
        return last

    def states(
        self,
        ids: Int64[Tensor, "batch len"],
        mask: Bool[Tensor, "batch 1 1 len"],
        token_types: Int64[Tensor, "batch len"] | None = None,
    ) -> Iterator[Float[Tensor, "batch len d_model"]]:
        """The embedded input and the states after each block, one by one; the last after the final norm."""
        x = self.input(ids, token_types)
        if self.convolution is not None:
            x = self.convolution(x, mask[:, 0, 0])
        yield x
        bias = added_bias(self.position_bias, ids.size(1), ids.size(1))
        masks: dict[int | None, Tensor] = {None: mask}
        for number, block in enumerate(self.blocks, start=1):
            window = cast(EncoderBlock, block).window
            if window is not None and window not in masks:
                near = window_mask(ids.size(1), window, bidirectional=True, device=ids.device)
                masks[window] = mask & near
            x = block(x, masks[window], bias)
            yield self.norm(x) if number == len(self.blocks) else x
