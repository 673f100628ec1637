"""Heads of an encoder: text vectors, classes of texts or tokens, numbers, masked tokens, answer spans."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn

from regard.layers.feedforward import ACTIVATIONS, Elementwise
from regard.layers.masks import real_positions

Pooling = Literal["cls", "mean", "max"]
HeadActivation = Literal["tanh", "relu", "gelu", "gelu_tanh", "quick_gelu", "silu"]

Hidden = Float[Tensor, "batch len d_model"]
Lengths = Int[Tensor, " batch"]
Selected = Bool[Tensor, "batch len"]


def pooled(
    hidden: Hidden, lengths: Int[Tensor, " batch"], pooling: Pooling
) -> Float[Tensor, "batch d_model"]:
    """One vector for each text: its first state ("cls"), or the mean or maximum of its states.

    Padding does not count. The mean and maximum of a text without tokens are zero.
    """
    if pooling == "cls":
        return hidden[:, 0]
    is_real = real_positions(lengths, hidden.size(1))[:, :, None]
    if pooling == "mean":
        return hidden.where(is_real, 0.0).sum(dim=1) / lengths.clamp(min=1)[:, None]
    return hidden.where(is_real, -torch.inf).amax(dim=1).where(lengths[:, None] > 0, 0.0)


class PooledHead(nn.Module):
    """A text -> one vector; with `layer` it goes through activation(W x + b), as in BERT's pooler.

    There is no b unless `bias`. A `norm` may follow, as in ModernBERT (Warner et al. 2024). BERT uses tanh
    (Devlin et al. 2019). If `normalised`, the vector has length 1, so that the dot product of two is their
    cosine (Reimers and Gurevych 2019).
    """

    def __init__(
        self,
        d_model: int,
        pooling: Pooling,
        *,
        layer: bool,
        activation: HeadActivation = "tanh",
        bias: bool = True,
        norm: nn.Module | None = None,
        normalised: bool = False,
    ) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        self.activation = _function(activation)
        self.normalised = normalised
        self.layer = nn.Linear(d_model, d_model, bias) if layer else None
        self.norm = norm if layer else None

    def forward(
        self, hidden: Hidden, lengths: Lengths, selected: Selected | None = None
    ) -> Float[Tensor, "batch d_model"]:
        vector = pooled(hidden, lengths, self.pooling)
        if self.layer is not None:
            vector = self.activation(self.layer(vector))
        if self.norm is not None:
            vector = self.norm(vector)
        return F.normalize(vector, dim=-1) if self.normalised else vector


class ClassificationHead(nn.Module):
    """A text -> logits of its classes."""

    def __init__(self, pooler: PooledHead, d_model: int, num_labels: int, *, dropout: float) -> None:
        super().__init__()
        self.pooler, self.dropout = pooler, nn.Dropout(dropout)
        self.output = nn.Linear(d_model, num_labels)

    def forward(
        self, hidden: Hidden, lengths: Lengths, selected: Selected | None = None
    ) -> Float[Tensor, "batch num_labels"]:
        return self.output(self.dropout(self.pooler(hidden, lengths)))


class RegressionHead(ClassificationHead):
    """A text -> a number, mean + std * output: the output has the same scale for all labels."""

    def __init__(self, pooler: PooledHead, d_model: int, *, dropout: float, mean: float, std: float) -> None:
        super().__init__(pooler, d_model, 1, dropout=dropout)
        self.mean, self.std = mean, std

    def forward(
        self, hidden: Hidden, lengths: Lengths, selected: Selected | None = None
    ) -> Float[Tensor, " batch"]:
        return self.mean + self.std * super().forward(hidden, lengths)[:, 0]


class Transform(nn.Module):
    """norm(activation(W x + b)) before the output of a head; without b unless `bias`."""

    def __init__(self, d_model: int, activation: HeadActivation, norm: nn.Module, *, bias: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(d_model, d_model, bias)
        self.activation, self.norm = _function(activation), norm

    def forward(self, x: Float[Tensor, "*positions d_model"]) -> Float[Tensor, "*positions d_model"]:
        return self.norm(self.activation(self.layer(x)))


class TokenHead(nn.Module):
    """Each position, or each that is True in `selected`, row by row -> logits of its classes."""

    def __init__(
        self, d_model: int, num_labels: int, *, dropout: float, transform: Transform | None = None
    ) -> None:
        super().__init__()
        self.transform = nn.Identity() if transform is None else transform
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(d_model, num_labels)

    def forward(
        self, hidden: Hidden, lengths: Lengths, selected: Selected | None = None
    ) -> Float[Tensor, "*positions num_labels"]:
        return self.output(self.dropout(self.transform(_chosen(hidden, selected))))


class MaskedLanguageModelHead(nn.Module):
    """Each position, or each that is True in `selected`, row by row -> logits of its token.

    norm(gelu(W x + b)), then the transposed embedding and a bias for each token (Devlin et al. 2019). W leads
    to the width of the embedding.
    """

    def __init__(
        self,
        d_model: int,
        embedding: nn.Parameter,
        norm: nn.Module,
        *,
        activation: HeadActivation = "gelu",
        bias: bool = True,
    ) -> None:
        super().__init__()
        vocab_size, width = embedding.shape
        self.transform = nn.Linear(d_model, width, bias)
        self.activation = _function(activation)
        self.norm = norm
        self.output = nn.Linear(width, vocab_size)
        self.output.weight = embedding

    def forward(
        self, hidden: Hidden, lengths: Lengths, selected: Selected | None = None
    ) -> Float[Tensor, "*positions vocab"]:
        return self.output(self.norm(self.activation(self.transform(_chosen(hidden, selected)))))


class ReplacedTokenHead(nn.Module):
    """Each position, or each that is True in `selected` -> the logit that its token was replaced.

    w . gelu(W x + b) + c, the discriminator of ELECTRA (Clark et al. 2020).
    """

    def __init__(self, d_model: int, *, activation: HeadActivation = "gelu", bias: bool = True) -> None:
        super().__init__()
        self.transform = nn.Linear(d_model, d_model, bias)
        self.activation = _function(activation)
        self.output = nn.Linear(d_model, 1)

    def forward(
        self, hidden: Hidden, lengths: Lengths, selected: Selected | None = None
    ) -> Float[Tensor, "*positions"]:
        return self.output(self.activation(self.transform(_chosen(hidden, selected))))[..., 0]


class SpanHead(nn.Module):
    """A text -> logits of each token as the start of an answer (row 0) and as its end (row 1).

    Logits are -inf at padding and, with `selected`, at positions that are False (question, special tokens).
    If no position is left, only the first token is allowed, which means "no answer" (Devlin et al. 2019,
    section 4.3).
    """

    def __init__(self, d_model: int, *, dropout: float, transform: Transform | None = None) -> None:
        super().__init__()
        self.transform = nn.Identity() if transform is None else transform
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(d_model, 2)

    def forward(
        self, hidden: Hidden, lengths: Lengths, selected: Selected | None = None
    ) -> Float[Tensor, "batch 2 len"]:
        logits = self.output(self.dropout(self.transform(hidden))).transpose(1, 2)
        allowed = real_positions(lengths, hidden.size(1)) if selected is None else selected
        first = torch.arange(hidden.size(1), device=hidden.device) == 0
        allowed = allowed | (first & ~allowed.any(dim=1, keepdim=True))
        return logits.where(allowed[:, None], -torch.inf)


def best_spans(
    logits: Float[Tensor, "batch 2 len"], max_length: int
) -> tuple[Int64[Tensor, "batch 2"], Float[Tensor, " batch"]]:
    """The most likely span of at most `max_length` tokens: first and last position, and log-probability.

    `logits` come from a `SpanHead`. Start and end are independent, so the probability of a span is the
    product of theirs. Positions count from 0; log-probabilities are in nats. In a tie the first span wins.

    Raises:
        ValueError: `max_length` is below 1.
    """
    if max_length < 1:
        raise ValueError(f"a span has at least one token: max_length = {max_length}")
    start, end = logits.log_softmax(dim=-1).unbind(dim=1)
    scores = start[:, :, None] + end[:, None, :]
    length = scores.size(-1)
    in_order = torch.ones(length, length, dtype=torch.bool, device=logits.device).triu().tril(max_length - 1)
    best = scores.where(in_order, -torch.inf).flatten(1).max(dim=1)
    return torch.stack([best.indices // length, best.indices % length], dim=1), best.values


def _function(activation: HeadActivation) -> Elementwise:
    return torch.tanh if activation == "tanh" else ACTIVATIONS[activation]


def _chosen(hidden: Hidden, selected: Selected | None) -> Float[Tensor, "*positions d_model"]:
    """The states of the selected positions, row by row; without `selected` all."""
    return hidden if selected is None else hidden[selected]
