"""What frames say: alignments of connectionist temporal classification -> labels (Graves et al. 2006).

At each frame a model says a label or the blank, number 0. Repeated labels are one, unless a blank
stands between them; then blanks are left out. So many alignments say the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int
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
        log_probs = logits.double().log_softmax(-1).cpu().numpy()
        return [
            self.likeliest(row[:length])[0] for row, length in zip(log_probs, lengths.tolist(), strict=True)
        ]

    def likeliest(self, frames: Float[np.ndarray, "len labels"]) -> list[Transcript]:
        """The `beam_size` likeliest transcripts of one sequence of log-probabilities, the best first."""
        beam = Prefixes(ids=[()], in_blank=np.zeros(1), in_label=np.full(1, -np.inf))
        for frame in frames:
            beam = self._extended(beam, frame)
        scores = np.logaddexp(beam.in_blank, beam.in_label).tolist()
        return [Transcript(ids=ids, log_prob=score) for ids, score in zip(beam.ids, scores, strict=True)]

    def _extended(self, beam: "Prefixes", frame: Float[np.ndarray, " labels"]) -> "Prefixes":
        """The beginnings one frame later, the likeliest first.

        All labels of all beginnings at once: 200 frames of 40 labels take 0.01 s, label by label 1.4 s.
        """
        last = np.array([ids[-1] if ids else BLANK for ids in beam.ids])
        both = np.logaddexp(beam.in_blank, beam.in_label)
        in_blank, in_label = both + frame[BLANK], beam.in_label + frame[last]
        before = np.repeat(both[:, None], len(frame), axis=1)  # what each label of each beginning follows
        before[np.arange(len(last)), last] = beam.in_blank  # one said anew needs a blank before it
        before[:, BLANK] = -np.inf  # which is no label
        longer = before + frame
        places = {ids: place for place, ids in enumerate(beam.ids)}
        for ids, place in places.items():
            shorter = places.get(ids[:-1]) if ids else None
            if shorter is not None:  # one beginning made longer is another
                in_label[place] = np.logaddexp(in_label[place], longer[shorter, ids[-1]])
                before[shorter, ids[-1]] = -np.inf
        parents, labels = np.nonzero(before > -np.inf)
        return self._best(beam.ids, in_blank, in_label, parents, labels, longer[parents, labels])

    def _best(
        self,
        ids: list[tuple[int, ...]],
        in_blank: Float[np.ndarray, " beginnings"],
        in_label: Float[np.ndarray, " beginnings"],
        parents: Int[np.ndarray, " longer"],
        labels: Int[np.ndarray, " longer"],
        said: Float[np.ndarray, " longer"],
    ) -> "Prefixes":
        """The likeliest of the beginnings and of those longer by a label; of equals the first by numbers."""
        scores = np.concatenate([np.logaddexp(in_blank, in_label), said])
        least = (
            np.partition(scores, -self.beam_size)[-self.beam_size]
            if len(scores) > self.beam_size
            else -np.inf
        )
        found = []
        for place in np.flatnonzero(scores >= least).tolist():
            if place < len(ids):
                ends = ids[place], float(in_blank[place]), float(in_label[place])
            else:
                new = place - len(ids)
                ends = (*ids[parents[new]], int(labels[new])), -math.inf, float(said[new])
            found.append((-float(scores[place]), *ends))
        chosen = sorted(found)[: self.beam_size]
        return Prefixes(
            ids=[each[1] for each in chosen],
            in_blank=np.array([each[2] for each in chosen]),
            in_label=np.array([each[3] for each in chosen]),
        )


@dataclass(frozen=True, kw_only=True)
class Prefixes:
    """What the frames so far may say, and the log-probabilities that alignments end in a blank, or do not."""

    ids: list[tuple[int, ...]]
    in_blank: Float64[np.ndarray, " beginnings"]
    in_label: Float64[np.ndarray, " beginnings"]


def search_of(beam_size: int) -> BestAlignment | PrefixBeamSearch:
    """The fast search for a beam of one, else the one that sums over alignments."""
    return BestAlignment() if beam_size == 1 else PrefixBeamSearch(beam_size=beam_size)
