"""Learned metrics of translations: COMET (Rei et al. 2020), COMETKiwi and UniTE, which join texts.

COMET encodes a translation, its source and its reference apart, and scores features of the three vectors
(section 2.3). UniTE (Wan et al. 2022) and COMETKiwi (Rei et al. 2022) encode a translation together with its
source or its reference, and score the first state.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.feedforward import Elementwise
from regard.layers.layer_mix import LayerMix, Weighting
from regard.layers.masks import padding_mask
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.heads import Pooling, pooled
from regard.models.initialise import normal
from regard.models.model import Model

MetricInput = Literal["source", "reference"]
EstimatorActivation = Literal["tanh", "sigmoid", "softplus", "softsign", "mish"]
ESTIMATOR_ACTIVATIONS: Mapping[str, Elementwise] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "mish": F.mish,
}
APART: tuple[tuple[MetricInput, ...], ...] = (("source",), ("source", "reference"))
JOINED: tuple[tuple[MetricInput, ...], ...] = (*APART, ("reference",))


@dataclass(frozen=True, kw_only=True)
class TranslationMetricConfig(EncoderConfig):
    """The settings of a learned metric: those of its encoder, and of what it does with the states.

    `reads` is what it compares a translation with. If `joined`, both are one input, and a metric that reads
    source and reference gives the mean score of three inputs: translation and source, translation and
    reference, all three. Otherwise each text has a vector of its own.
    """

    kind: ClassVar[str] = "translation_metric"
    reads: tuple[MetricInput, ...]
    joined: bool
    layer: int | None = None  # the states that are used, 0 the embeddings; None: a mix of all layers
    mix: Weighting = "softmax"  # of the weights of the layers
    mix_norm: bool = False  # normalise the states of each layer before they are mixed
    pooling: Pooling = "mean"  # from the states of a text to its vector
    hidden_sizes: tuple[int, ...] = (3072, 1024)  # hidden layers of the feed-forward estimator
    estimator_activation: EstimatorActivation = "tanh"  # between the layers of the estimator
    score_activation: EstimatorActivation | None = None  # of the score itself
    estimator_dropout: float = 0.1  # after each hidden layer of the estimator

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_fraction("estimator_dropout")
        if not self.hidden_sizes or min(self.hidden_sizes) < 1:
            raise ConfigError(
                f"hidden_sizes = {self.hidden_sizes} is not possible", "give sizes of 1 or more"
            )
        if self.reads not in (known := JOINED if self.joined else APART):
            raise ConfigError(
                f"reads = {self.reads} is unknown for joined = {self.joined}",
                f"known: {', '.join(map(str, known))}",
            )
        if self.joined and self.pooling != "cls":
            raise ConfigError(f"pooling = {self.pooling!r}, but joined = True", "pooling = 'cls'")
        if self.layer is not None and not 0 <= self.layer <= self.num_layers:
            raise ConfigError(f"layer = {self.layer} is out of range", f"give 0 to {self.num_layers}")
        if self.layer is not None and (self.mix != "softmax" or self.mix_norm):
            raise ConfigError(f"mix and mix_norm are for layer = None, not {self.layer}", "leave them out")

    @property
    def text_limit(self) -> int | None:
        """The tokens that are read of one text, its two special tokens included; None without a limit.

        As in COMET, they are two fewer than there are positions.
        """
        return None if self.position_limit is None else self.position_limit - 2

    @property
    def num_features(self) -> int:
        """The size of the estimator's input."""
        return self.d_model * (1 if self.joined else 2 + 2 * len(self.reads))


class Estimator(nn.Module):
    """Features -> a score, by linear layers with an activation between."""

    def __init__(self, config: TranslationMetricConfig) -> None:
        super().__init__()
        sizes = (config.num_features, *config.hidden_sizes)
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        self.activation = ESTIMATOR_ACTIVATIONS[config.estimator_activation]
        self.dropout = nn.Dropout(config.estimator_dropout)
        self.output = nn.Linear(sizes[-1], 1)
        self.score_activation = ESTIMATOR_ACTIVATIONS.get(config.score_activation or "")

    def forward(self, features: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch 1"]:
        for layer in self.layers:
            features = self.dropout(self.activation(layer(features)))
        score = self.output(features)
        return score if self.score_activation is None else self.score_activation(score)


class TranslationMetric(Model):
    """An encoder, the mix of its layers, and an estimator, for one translation a row.

    A row has several texts. A joined metric scores each, and the score is their mean; otherwise the texts are
    the translation, then what the metric reads.
    """

    def __init__(self, config: TranslationMetricConfig) -> None:
        super().__init__()
        self.config: TranslationMetricConfig = config
        self.encoder = Encoder(config)
        self.mix = None
        if config.layer is None:
            self.mix = LayerMix(config.num_layers + 1, config.mix, normalised=config.mix_norm)
        self.estimator = Estimator(config)

    def forward(
        self, ids: Int64[Tensor, "batch texts len"], lengths: Int[Tensor, "batch texts"]
    ) -> Float[Tensor, "batch 1"]:
        """The score of each row, whose texts are padded on the right, beyond `lengths`."""
        vectors = self.vectors(ids.flatten(0, 1), lengths.flatten())
        return self.estimate(vectors.unflatten(0, lengths.shape))

    def vectors(
        self, ids: Int64[Tensor, "texts len"], lengths: Int[Tensor, " texts"]
    ) -> Float[Tensor, "texts d_model"]:
        """The vector of each text."""
        mask = padding_mask(lengths, ids.size(1))
        states = self.encoder.states(ids, mask)
        if self.mix is not None:
            hidden = self.mix(states, mask[:, 0, 0])
        else:
            hidden = next(x for number, x in enumerate(states) if number == self.config.layer)
        return pooled(hidden, lengths, self.config.pooling)

    def estimate(self, vectors: Float[Tensor, "batch texts d_model"]) -> Float[Tensor, "batch 1"]:
        """The score of each row from the vectors of its texts."""
        if self.config.joined:
            return self.estimator(vectors).mean(dim=1)
        translation, source, *others = vectors.unbind(dim=1)
        compared = [translation * source, (translation - source).abs()]
        if others:
            [reference] = others
            features = [translation, reference, translation * reference, (translation - reference).abs()]
        else:
            features = [translation, source]
        return self.estimator(torch.cat([*features, *compared], dim=-1))

    @property
    def max_length(self) -> int | None:
        """The greatest length that the model can read; None without a limit."""
        return self.config.position_limit

    def initialise(self, generator: torch.Generator) -> None:
        normal(self, generator)
