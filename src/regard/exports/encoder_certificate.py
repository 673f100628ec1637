"""The certificate of an encoder's export: how far an engine's outputs are from regard's."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.exports.certificate import TIE, Quantization, broken_bounds

Rows = np.ndarray  # [outputs, width]: of a text one row, or one for each place


@dataclass(frozen=True, kw_only=True)
class EncoderBounds:
    """What a certificate allows; differences are of log-probabilities, or of numbers by their deviation."""

    labels: float  # the least share of labels that are equal or tied
    largest: float
    mean: float


# Measured with models of the recipes sst2, trec, ud-pos and sst-mlm, trained for a moment: float32 1.0 and
# 1.2e-5, int8 0.99 and 0.1. Trained ones have sharper outputs; these bounds follow from certificate.py.
BOUNDS: dict[Quantization, EncoderBounds] = {
    "float32": EncoderBounds(labels=1.0, largest=1e-3, mean=1e-4),
    "float16": EncoderBounds(labels=0.98, largest=0.1, mean=0.01),
    "int8": EncoderBounds(labels=0.9, largest=3.0, mean=0.2),
}


@dataclass(frozen=True, kw_only=True)
class EncoderComparison:
    """What two engines computed for all texts, compared."""

    texts_read: float  # the share of texts that are read as the same ids and places
    outputs: int
    equal: float  # the share of outputs with the same most probable class; 1 if there are no classes
    tied: float  # with another one, of which regard's log-probability is within TIE
    largest_difference: float
    mean_difference: float
    bounds: EncoderBounds

    @property
    def failures(self) -> list[str]:
        """A line for each bound that does not hold. NaN holds no bound."""
        least = (
            ("share of texts with equal ids", self.texts_read, 1.0),
            ("share of equal labels", self.equal + self.tied, self.bounds.labels),
        )
        most = (
            ("largest difference of an output", self.largest_difference, self.bounds.largest),
            ("mean difference of outputs", self.mean_difference, self.bounds.mean),
        )
        return broken_bounds(least, most)

    def to_dict(self) -> dict[str, Any]:
        """The part of CERTIFICATE.json."""
        names = ("outputs", "equal", "tied", "largest_difference", "mean_difference")
        return {
            "passed": not self.failures,
            "ids": {"equal": self.texts_read, "bound": 1.0},
            "labels": {name: getattr(self, name) for name in names},
            "tie": TIE,
            "bounds": asdict(self.bounds),
        }


def compare_encoders(
    ours: Sequence[Rows],
    theirs: Sequence[Rows],
    *,
    classes: bool,
    scale: float,
    read: float,
    quantization: Quantization,
) -> EncoderComparison:
    """The outputs for each text, compared: logits of `classes`, else numbers, whose unit is `scale`."""
    equal, tied, total, differences = 0, 0, 0, []
    for own, other in zip(ours, theirs, strict=True):
        assert own.shape == other.shape
        mine, their = (log_softmax(each) if classes else each / scale for each in (own, other))
        differences.append(np.abs(mine - their).reshape(-1))
        total += len(mine)
        if not classes:
            equal += len(mine)
            continue
        best, found = mine.argmax(axis=1), their.argmax(axis=1)
        rows = np.arange(len(mine))
        near = mine[rows, best] - mine[rows, found] <= TIE
        equal += int((best == found).sum())
        tied += int(((best != found) & near).sum())
    joined = np.concatenate(differences)
    return EncoderComparison(
        texts_read=read,
        outputs=total,
        equal=equal / total,
        tied=tied / total,
        largest_difference=float(joined.max()),
        mean_difference=float(joined.mean()),
        bounds=BOUNDS[quantization],
    )


def log_softmax(logits: Rows) -> Rows:
    """Log-probabilities, in double precision."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
