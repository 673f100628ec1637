"""Encoder-only Transformers, such as BERT (Devlin et al. 2019), with a head for a task."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.masks import padding_mask
from regard.models import heads
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.initialise import normal
from regard.models.model import Model
from regard.models.registered import made_norm

Head = Literal[
    "none",  # the states themselves
    "pooled",  # one vector for each text
    "masked_language_model",  # logits of masked tokens
    "replaced_tokens",  # the logit that a token was replaced (ELECTRA)
    "classification",  # logits of the classes of each text
    "tokens",  # logits of the classes of each token
    "spans",  # logits of the start and the end of an answer
    "regression",  # a number for each text
]
WITH_LABELS = ("classification", "tokens")  # heads that need num_labels


@dataclass(frozen=True, kw_only=True)
class EncoderOnlyConfig(EncoderConfig):
    """The settings of an encoder with a head; the defaults are BERT's base model."""

    kind: ClassVar[str] = "encoder_only"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Devlin et al. 2019
        "bert-base": {},
        # Turc et al. 2019
        "bert-tiny": {"d_model": 128, "num_heads": 2, "d_ff": 512, "num_layers": 2},
        # BERT's architecture in a size that trains on a laptop in minutes from some thousand texts
        "small": {
            "d_model": 128,
            "num_heads": 4,
            "d_ff": 256,
            "num_layers": 2,
            "num_token_types": 0,
            "pooling": "mean",
            "pooler": False,
        },
        # the same size with newer choices: Warner et al. 2024 (ModernBERT), with Llama's norm and gate
        "modern": {
            "d_model": 128,
            "num_heads": 4,
            "d_ff": 256,
            "num_layers": 2,
            "norm": "rms",
            "norm_position": "pre",
            "activation": "swiglu",
            "positions": "rotary",
            "num_token_types": 0,
            "pooling": "mean",
            "pooler": False,
        },
    }
    head: Head  # what the model computes from the states
    num_labels: int = 0  # of the heads "classification" and "tokens"
    label_mean: float = 0.0  # mean of the labels of the head "regression"
    label_std: float = 1.0  # standard deviation of these labels
    fresh_head: bool = True  # the head was never trained, so its outputs are random
    pooling: heads.Pooling = "cls"  # from token states to one vector
    pooler: bool = True  # a layer after the pooling
    normalised: bool = False  # head "pooled": scale vectors to length 1, as sentence encoders do
    sentence_tokens: int | None = None  # sentence encoders: tokens that are read, special tokens included
    sentence_prompt: str = ""  # sentence encoders: text before each input
    head_activation: heads.HeadActivation | None = None  # None: tanh after pooling, gelu for masked tokens
    head_norm: bool = False  # a norm after the head's layer, which heads of tokens and spans have only then
    head_bias: bool = True  # of the head's layer
    head_dropout: float = 0.1  # of the input of the head

    def __post_init__(self) -> None:
        self.require_positive("sentence_tokens")
        super().__post_init__()
        self.require_fraction("head_dropout")
        if not (math.isfinite(self.label_mean) and 0 < self.label_std < math.inf):
            raise ConfigError(
                f"label_mean = {self.label_mean} or label_std = {self.label_std} is out of range",
                "both must be finite, and label_std above 0",
            )
        wants_labels = self.head in WITH_LABELS
        if wants_labels != (self.num_labels > 1) or self.num_labels < 0:
            raise ConfigError(
                f"num_labels = {self.num_labels} does not fit head = {self.head!r}",
                "give 2 or more" if wants_labels else "leave it out: this head has no labels",
            )


class EncoderOnly(Model):
    """An encoder and a head; their weights are named `encoder.*` and `head.*`."""

    def __init__(self, config: EncoderOnlyConfig) -> None:
        super().__init__()
        self.config: EncoderOnlyConfig = config
        self.encoder = Encoder(config)
        self.head = _head(config, self.encoder.input.embedding.weight)

    def forward(
        self,
        ids: Int64[Tensor, "batch len"],
        lengths: Int[Tensor, " batch"],
        token_types: Int64[Tensor, "batch len"] | None = None,
        selected: Bool[Tensor, "batch len"] | None = None,
    ) -> Float[Tensor, "..."]:
        """The head's output for each text or token; without a head the states.

        Rows are padded on the right, beyond `lengths`. A head that works on tokens reads those that are True
        in `selected`; all, if it is None.
        """
        hidden = self.encode(ids, lengths, token_types)
        return hidden if self.head is None else self.head(hidden, lengths, selected)

    def encode(
        self,
        ids: Int64[Tensor, "batch len"],
        lengths: Int[Tensor, " batch"],
        token_types: Int64[Tensor, "batch len"] | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        """The states of the encoder, before the head."""
        return self.encoder(ids, padding_mask(lengths, ids.size(1)), token_types)

    @property
    def max_length(self) -> int | None:
        """The greatest length that the model can read; None without a limit."""
        return self.config.position_limit

    def initialise(self, generator: torch.Generator) -> None:
        normal(self, generator)


def _head(config: EncoderOnlyConfig, embedding: nn.Parameter) -> nn.Module | None:
    """The head of a config; `embedding` is the weight of the token embeddings [vocab, width]."""
    width, labels, dropout = config.d_model, config.num_labels, config.head_dropout
    match config.head:
        case "none":
            return None
        case "pooled":
            return _pooler(config)
        case "masked_language_model":
            return heads.MaskedLanguageModelHead(
                width,
                embedding,
                made_norm(config, embedding.shape[1]),
                activation=config.head_activation or "gelu",
                bias=config.head_bias,
            )
        case "replaced_tokens":
            return heads.ReplacedTokenHead(
                width, activation=config.head_activation or "gelu", bias=config.head_bias
            )
        case "classification":
            return heads.ClassificationHead(_pooler(config), width, labels, dropout=dropout)
        case "tokens":
            return heads.TokenHead(width, labels, dropout=dropout, transform=_transform(config))
        case "spans":
            return heads.SpanHead(width, dropout=dropout, transform=_transform(config))
        case "regression":
            mean, std = config.label_mean, config.label_std
            return heads.RegressionHead(_pooler(config), width, dropout=dropout, mean=mean, std=std)


def _pooler(config: EncoderOnlyConfig) -> heads.PooledHead:
    """The head that makes one vector of the states of a text."""
    return heads.PooledHead(
        config.d_model,
        config.pooling,
        layer=config.pooler,
        activation=config.head_activation or "tanh",
        bias=config.head_bias,
        norm=made_norm(config, config.d_model) if config.head_norm else None,
        normalised=config.normalised and config.head == "pooled",
    )


def _transform(config: EncoderOnlyConfig) -> heads.Transform | None:
    """The layer before the output of a head of tokens or spans; None without `head_norm`."""
    if not config.head_norm:
        return None
    norm = made_norm(config, config.d_model)
    return heads.Transform(config.d_model, config.head_activation or "tanh", norm, bias=config.head_bias)
