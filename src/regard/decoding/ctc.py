"""What frames say: alignments of connectionist temporal classification -> labels (Graves et al. 2006).

At each frame a model says a label or the blank, number 0. Repeated labels are one, unless a blank
stands between them; then blanks are left out. So many alignments say the same.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

BLANK = 0


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """Labels, and the natural logarithm of their probability (of one alignment, where that was taken)."""

    ids: tuple[int, ...]
    log_prob: float


def collapsed(alignment: Sequence[int]) -> tuple[int, ...]:
    """The labels that an alignment says."""
    return tuple(
        label
        for place, label in enumerate(alignment)
        if label != BLANK and (place == 0 or label != alignment[place - 1])
    )


@dataclass(frozen=True, kw_only=True)
class BestAlignment:
    """The labels of the likeliest alignment: the likeliest label of each frame, collapsed."""

    def __call__(
        self, logits: Float[Tensor, "batch len labels"], lengths: Int[Tensor, " batch"]
    ) -> list[Transcript]:
        best, labels = logits.log_softmax(-1).max(-1)
        return [
            Transcript(ids=collapsed(row[:length]), log_prob=float(scores[:length].sum()))
            for row, scores, length in zip(labels.tolist(), best.double(), lengths.tolist(), strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class PrefixBeamSearch:
    """The likeliest labels, summed over their alignments (Graves et al. 2006, 3.2; Hannun et al. 2014).

    After each frame the `beam_size` likeliest beginnings are kept. A beginning has two probabilities: that
    its alignments end in a blank, after which its last label may be said anew, and that they do not.
    """

    beam_size: int = 8

    def __call__(
        self, logits: Float[Tensor, "batch len labels"], lengths: Int[Tensor, " batch"]
    ) -> list[Transcript]:
        log_probs = logits.double().log_softmax(-1)
        return [
            self.likeliest(row[:length].tolist())[0]
            for row, length in zip(log_probs, lengths.tolist(), strict=True)
        ]

    def likeliest(self, frames: Sequence[Sequence[float]]) -> list[Transcript]:
        """The `beam_size` likeliest transcripts of one sequence of log-probabilities, the best first."""
        beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
        for frame in frames:
            beam = self._extended(beam, frame)
        return [Transcript(ids=ids, log_prob=_sum(*ends)) for ids, ends in beam.items()]

    def _extended(
        self, beam: dict[tuple[int, ...], tuple[float, float]], frame: Sequence[float]
    ) -> dict[tuple[int, ...], tuple[float, float]]:
        """The beginnings one frame later, the likeliest first."""
        in_blank: dict[tuple[int, ...], float] = defaultdict(lambda: -math.inf)
        in_label: dict[tuple[int, ...], float] = defaultdict(lambda: -math.inf)
        for ids, (blank, label) in beam.items():
            both = _sum(blank, label)
            in_blank[ids] = _sum(in_blank[ids], both + frame[BLANK])
            if ids:
                in_label[ids] = _sum(in_label[ids], label + frame[ids[-1]])
            for number in range(1, len(frame)):
                longer = (*ids, number)
                before = blank if ids and number == ids[-1] else both
                if before > -math.inf:  # a label said anew needs a blank before it
                    in_label[longer] = _sum(in_label[longer], before + frame[number])
        ends = {ids: (in_blank[ids], in_label[ids]) for ids in {**in_blank, **in_label}}
        best = sorted(ends, key=lambda ids: (-_sum(*ends[ids]), ids))  # among equals the first by its numbers
        return {ids: ends[ids] for ids in best[: self.beam_size]}


def search_of(beam_size: int) -> BestAlignment | PrefixBeamSearch:
    """The fast search for a beam of one, else the one that sums over alignments."""
    return BestAlignment() if beam_size == 1 else PrefixBeamSearch(beam_size=beam_size)


def _sum(one: float, other: float) -> float:
    """log(exp(one) + exp(other))."""
    if one < other:
        one, other = other, one
    return one if other == -math.inf else one + math.log1p(math.exp(other - one))
