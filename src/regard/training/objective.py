"""What training makes smaller: losses, summed over what is predicted, in nats."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.data.batch import IGNORED, LabelledBatch, PairBatch
from regard.data.token_stream import TextBatch
from regard.models.decoder_only import DecoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.training.linear_cross_entropy import can_be_linear_cross_entropy, linear_cross_entropy


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Sums over the `num_targets` predictions (tokens, labels) of a batch."""

    total: Float[Tensor, ""]  # what the gradient is taken of
    nll: Float[Tensor, ""]  # negative log-likelihood alone, without smoothing or regularisers
    num_targets: int


@runtime_checkable
class Objective(Protocol):
    """From a model and a batch to a loss."""

    def __call__(self, model: Any, batch: Any) -> Loss: ...


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Cross-entropy with label smoothing (Szegedy et al. 2016; section 5.4 of Vaswani et al. 2017).

    The smoothed target gives `smoothing` to all tokens alike, the gold one included, as
    `F.cross_entropy(label_smoothing=...)` does. Padding counts nothing.
    """

    smoothing: float = 0.0
    pad_id: int = 0

    def __call__(self, model: SequenceToSequence, batch: PairBatch) -> Loss:
        return _of_states(*real_states(model, batch, self.pad_id), model.output, self.smoothing)

    def logits(self, model: SequenceToSequence, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Logits and labels of the targets that count."""
        return real_logits(model, batch, self.pad_id)

    def of_log_probs(
        self, log_probs: Float[Tensor, "tokens vocab"], labels: Int64[Tensor, " tokens"]
    ) -> Loss:
        return _of_log_probs(log_probs, labels, self.smoothing)


@dataclass(frozen=True, kw_only=True)
class NextToken:
    """Cross-entropy of each next token of running text. Places whose label is IGNORED count nothing."""

    smoothing: float = 0.0

    def __call__(self, model: DecoderOnly, batch: TextBatch) -> Loss:
        return _of_states(*self._states(model, batch), model.output, self.smoothing)

    def logits(self, model: DecoderOnly, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """Logits and labels of the targets that count."""
        states, labels = self._states(model, batch)
        return model.output(states), labels

    def _states(self, model: DecoderOnly, batch: TextBatch) -> tuple[Tensor, Tensor]:
        real = batch.labels != IGNORED
        return model.states(batch.ids, batch.documents)[real], batch.labels[real]


@dataclass(frozen=True, kw_only=True)
class LabelCrossEntropy:
    """Cross-entropy of one label a place: of a text, a word, an image, a node, a position of a text.

    Places whose label is IGNORED count nothing. `weights` are of the classes: the loss of a place is
    multiplied by that of its label, and the sum is divided by the number of places, as it is without.
    """

    smoothing: float = 0.0
    weights: tuple[float, ...] | None = None

    def __call__(self, model: nn.Module, batch: LabelledBatch) -> Loss:
        logits, labels = self.logits(model, batch)
        weights = None if self.weights is None else torch.tensor(self.weights, device=logits.device)
        total = F.cross_entropy(logits, labels, weights, reduction="sum", label_smoothing=self.smoothing)
        nll = total.detach()
        if self.smoothing or weights is not None:
            nll = F.cross_entropy(logits.detach(), labels, reduction="sum")
        return Loss(total=total, nll=nll, num_targets=labels.numel())

    def logits(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        """Logits and labels of the places that count."""
        real = batch.labels != IGNORED
        return model(*batch.inputs)[real].float(), batch.labels[real]


@dataclass(frozen=True, kw_only=True)
class SquaredError:
    """Squared distance from a number, in units of the numbers' deviation `std`; its own "likelihood"."""

    std: float = 1.0

    def __call__(self, model: nn.Module, batch: LabelledBatch) -> Loss:
        total = ((model(*batch.inputs).float() - batch.labels) / self.std).square().sum()
        return Loss(total=total, nll=total.detach(), num_targets=batch.labels.numel())


@dataclass(frozen=True, kw_only=True)
class RDrop:
    """Two passes under two dropout masks that are to agree (Wu et al. 2021, equation 4).

    Half of the paper's sum, so that it compares with the loss of one pass: the mean of both
    cross-entropies plus `weight` / 2 times the mean of the two Kullback-Leibler divergences.
    """

    base: CrossEntropy
    weight: float = 5.0

    def __call__(self, model: SequenceToSequence, batch: PairBatch) -> Loss:
        logits, labels = real_logits(model, batch, self.base.pad_id)
        other_logits, _ = real_logits(model, batch, self.base.pad_id)
        log_probs, other = F.log_softmax(logits, dim=-1), F.log_softmax(other_logits, dim=-1)
        first, second = self.base.of_log_probs(log_probs, labels), self.base.of_log_probs(other, labels)
        # KL(p||q) + KL(q||p) = sum (p - q)(log p - log q)
        divergence = ((log_probs.exp() - other.exp()) * (log_probs - other)).sum() / 2
        return Loss(
            total=(first.total + second.total) / 2 + self.weight / 2 * divergence,
            nll=(first.nll + second.nll) / 2,
            num_targets=first.num_targets,
        )


def real_states(
    model: SequenceToSequence, batch: PairBatch, pad_id: int
) -> tuple[Float[Tensor, "tokens d_model"], Int64[Tensor, " tokens"]]:
    """Decoder states and labels at real target positions: padding never meets the vocabulary's matrix."""
    real = batch.labels != pad_id
    memory = model.encode(batch.src_ids, batch.src_lengths)
    return model.decoder_states(batch.tgt_input, memory)[real], batch.labels[real]


def real_logits(
    model: SequenceToSequence, batch: PairBatch, pad_id: int
) -> tuple[Float[Tensor, "tokens vocab"], Int64[Tensor, " tokens"]]:
    states, labels = real_states(model, batch, pad_id)
    return model.project(states), labels


def _of_states(
    states: Float[Tensor, "tokens d_model"],
    labels: Int64[Tensor, " tokens"],
    output: nn.Linear,
    smoothing: float,
) -> Loss:
    """What predicting `labels` costs: in pieces where that can be, by all logits elsewhere."""
    if not can_be_linear_cross_entropy(states, output):
        return _of_log_probs(F.log_softmax(output(states), dim=-1), labels, smoothing)
    total, nll = linear_cross_entropy(states, output, labels, smoothing)
    return Loss(total=total, nll=nll, num_targets=labels.numel())


def _of_log_probs(
    log_probs: Float[Tensor, "tokens vocab"], labels: Int64[Tensor, " tokens"], smoothing: float
) -> Loss:
    nll = F.nll_loss(log_probs, labels, reduction="sum")
    total = nll
    if smoothing:
        total = (1 - smoothing) * nll - smoothing * log_probs.sum() / log_probs.size(-1)
    return Loss(total=total, nll=nll.detach(), num_targets=labels.numel())


def build_objective(*, label_smoothing: float, r_drop: float, pad_id: int) -> Objective:
    base = CrossEntropy(smoothing=label_smoothing, pad_id=pad_id)
    return RDrop(base=base, weight=r_drop) if r_drop else base
