"""The certificate of an export: how far an engine's outputs are from regard's.

Outputs are equal, tied, or different. They are tied if regard itself is undecided: greedy, if at the first
token that differs regard's log-probabilities of the two are within `TIE`; of a beam, if regard's scores of
the two outputs are.
"""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from regard.decoding.hypothesis import Hypothesis
from regard.exports.plain_reference import ForcedLogProbs, PlainReference

Quantization = Literal["float32", "float16", "bfloat16", "int8"]
TIE = 1e-4  # nats
BEAM_SIZE = 5


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a certificate allows; log-probabilities and scores are in nats per token."""

    equal_greedy: float  # the least share of outputs that are equal or tied
    equal_beam: float
    equal_tokens: float  # the least share of equal tokens of greedy outputs
    log_prob: float  # the largest difference of a forced token's log-probability
    mean_log_prob: float  # the mean of these differences
    score: float  # the largest difference of the scores of equal outputs


# About twice what was measured with the included model by 1,000 sentences of Multi30k and by made texts
# (greedy and beam outputs equal, greedy tokens equal, largest and mean difference, difference of scores):
#   float32   1.0 1.0 1.0, 7.6e-5 2.6e-6, 2.6e-6
#   bfloat16  0.970 0.950 0.992, 0.34 0.014, 0.018
#   int8      0.725 0.775 0.932, 1.29 0.076, 0.077
# float16 is exact there, since the model is stored in it; its bounds follow from those of bfloat16, which
# has an eighth of its precision.
BOUNDS: Mapping[Quantization, Bounds] = {
    "float32": Bounds(
        equal_greedy=1.0, equal_beam=0.995, equal_tokens=0.995, log_prob=1e-3, mean_log_prob=1e-4, score=1e-3
    ),
    "float16": Bounds(
        equal_greedy=0.95, equal_beam=0.95, equal_tokens=0.98, log_prob=0.1, mean_log_prob=0.004, score=0.01
    ),
    "bfloat16": Bounds(
        equal_greedy=0.9, equal_beam=0.9, equal_tokens=0.97, log_prob=0.8, mean_log_prob=0.03, score=0.05
    ),
    "int8": Bounds(
        equal_greedy=0.5, equal_beam=0.5, equal_tokens=0.85, log_prob=3.0, mean_log_prob=0.15, score=0.2
    ),
}


@dataclass(frozen=True, kw_only=True)
class EngineOutput:
    """An output of the other engine, without its end; `ended`: it has one."""

    ids: list[int]
    ended: bool
    score: float


@dataclass(frozen=True, kw_only=True)
class OutputComparison:
    """The outputs of all texts, compared."""

    equal: float  # shares of the texts
    tied: float
    equal_tokens: float  # the share of tokens that both outputs have, in the same order
    largest_score_difference: float  # of equal outputs

    @property
    def accepted(self) -> float:
        """The share of outputs that are equal or tied."""
        return self.equal + self.tied


@dataclass(frozen=True, kw_only=True)
class LogProbComparison:
    """The log-probabilities of forced tokens, compared."""

    sequences: int
    tokens: int
    largest_difference: float
    mean_difference: float


def broken_bounds(
    least: Iterable[tuple[str, float, float]], most: Iterable[tuple[str, float, float]]
) -> list[str]:
    """A line for each (name, value, bound) whose value is below its least or above its most; NaN is both."""
    return [
        *(f"{name}: {value:.4g}, at least {bound:g}" for name, value, bound in least if not value >= bound),
        *(f"{name}: {value:.4g}, at most {bound:g}" for name, value, bound in most if not value <= bound),
    ]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What two engines computed, compared; `failures` name the bounds that do not hold."""

    greedy: OutputComparison
    beam: OutputComparison
    log_probs: LogProbComparison
    bounds: Bounds
    ids: float | None = None  # of an engine with a tokeniser: the share of texts with the same ids
    least_ids: float | None = None  # its bound

    @property
    def failures(self) -> list[str]:
        """A line for each bound that does not hold. NaN holds no bound."""
        least = (
            ("share of equal greedy outputs", self.greedy.accepted, self.bounds.equal_greedy),
            ("share of equal beam outputs", self.beam.accepted, self.bounds.equal_beam),
            ("share of equal greedy tokens", self.greedy.equal_tokens, self.bounds.equal_tokens),
            *(
                [("share of texts with equal ids", self.ids, self.least_ids or 0.0)]
                if self.ids is not None
                else []
            ),
        )
        most = (
            (
                "largest difference of a log-probability",
                self.log_probs.largest_difference,
                self.bounds.log_prob,
            ),
            (
                "mean difference of log-probabilities",
                self.log_probs.mean_difference,
                self.bounds.mean_log_prob,
            ),
            ("difference of greedy scores", self.greedy.largest_score_difference, self.bounds.score),
            ("difference of beam scores", self.beam.largest_score_difference, self.bounds.score),
        )
        return broken_bounds(least, most)

    def to_dict(self) -> dict[str, Any]:
        """The part of CERTIFICATE.json."""
        return {
            "passed": not self.failures,
            "greedy": asdict(self.greedy),
            "beam": {"size": BEAM_SIZE, **asdict(self.beam)},
            "log_probs": asdict(self.log_probs),
            "tie": TIE,
            "bounds": asdict(self.bounds),
            **({"ids": {"equal": self.ids, "bound": self.least_ids}} if self.ids is not None else {}),
        }


def compare_outputs(
    reference: PlainReference,
    sources: Sequence[list[int]],
    ours: Sequence[Hypothesis],
    theirs: Sequence[EngineOutput],
    *,
    beam: bool,
) -> OutputComparison:
    """The outputs for each source, compared."""
    equal = tied = shared = total = 0
    largest = 0.0
    for source, own, other in zip(sources, ours, theirs, strict=True):
        same = own.ids == other.ids and (len(own.token_log_probs) > len(own.ids)) == other.ended
        matched = difflib.SequenceMatcher(None, own.ids, other.ids, autojunk=False).get_matching_blocks()
        shared += 2 * sum(each.size for each in matched)
        total += len(own.ids) + len(other.ids)
        if same:
            equal += 1
            largest = _larger(largest, abs(own.score - other.score))
        elif (_tied_scores if beam else _tied_tokens)(reference, source, own, other):
            tied += 1
    count = len(sources)
    return OutputComparison(
        equal=equal / count,
        tied=tied / count,
        equal_tokens=shared / total if total else 1.0,
        largest_score_difference=largest,
    )


def compare_log_probs(ours: Sequence[ForcedLogProbs], theirs: Sequence[Sequence[float]]) -> LogProbComparison:
    """The log-probabilities of forced outputs, compared; infinite if their numbers differ."""
    differences = []
    for own, other in zip(ours, theirs, strict=True):
        if len(own.log_probs) != len(other):
            differences.append(math.inf)
        differences += [abs(one - two) for one, two in zip(own.log_probs, other, strict=False)]
    largest = 0.0
    for each in differences:
        largest = _larger(largest, each)
    return LogProbComparison(
        sequences=len(ours),
        tokens=len(differences),
        largest_difference=largest,
        mean_difference=sum(differences) / max(1, len(differences)),
    )


def _larger(one: float, other: float) -> float:
    """The larger; NaN if one of them is."""
    return one if math.isnan(one) or other <= one else other


def _tied_tokens(reference: PlainReference, source: list[int], own: Hypothesis, other: EngineOutput) -> bool:
    eos_id = reference.target.eos_id
    mine = [*own.ids, eos_id]
    their = [*other.ids, eos_id] if other.ended else other.ids
    pairs = zip(mine, their, strict=False)
    place = next((place for place, (one, two) in enumerate(pairs) if one != two), None)
    if place is None:
        return False
    log_probs = reference.log_probs(source, own.ids[:place])[place]
    return abs(float(log_probs[mine[place]] - log_probs[their[place]])) <= TIE


def _tied_scores(reference: PlainReference, source: list[int], own: Hypothesis, other: EngineOutput) -> bool:
    return abs(own.score - reference.score(source, other.ids, ended=other.ended)) <= TIE
