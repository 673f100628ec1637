"""Scores of a test set that are the mean of its segments' scores, as those of learned metrics.

Intervals and significance are by sacreBLEU's bootstrap resampling, with its seed and its resamples.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as ResampledScore
from sacrebleu.significance import PairedTest, Result

from regard.evaluation.score import FineScore, version_fact
from regard.evaluation.translation import MIN_RESAMPLED_SENTENCES, Comparison, system_scores


@dataclass(frozen=True, kw_only=True)
class SegmentScore(FineScore):
    """The mean of the scores of all segments."""

    segments: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SegmentComparison(Comparison):
    """The means of several systems, and the scores of their segments by system."""

    decimals: ClassVar[int] = 4
    segments: Mapping[str, tuple[float, ...]]


def mean_score(name: str, scores: Sequence[float], facts: str) -> SegmentScore:
    """The mean of `scores` with its 95 % interval, if there are MIN_RESAMPLED_SENTENCES or more.

    `facts` begin the signature: what computed the scores.
    """
    found = compare_segments(name, {"": scores}, facts)
    [system] = found.systems
    signature = found.signature if system.low is not None else f"{facts}|{version_fact()}"
    return SegmentScore(
        name=name,
        value=system.value,
        low=system.low,
        high=system.high,
        signature=signature,
        segments=tuple(scores),
    )


def compare_segments(
    name: str, systems: Mapping[str, Sequence[float]], facts: str, *, bootstrap: int = 1000
) -> SegmentComparison:
    """Compares each system with the first by paired bootstrap resampling (Koehn 2004).

    `systems` has the scores of their segments, in the same order. `facts` begin the signature.
    """
    lengths = {len(scores) for scores in systems.values()}
    assert len(lengths) == 1, lengths
    named = cast("list[tuple[str, Sequence[str]]]", list(systems.items()))  # numbers where texts are usual
    test = PairedTest(named, {name: _Mean(name)}, None, test_type="bs", n_samples=bootstrap)
    signatures, results = test()
    return SegmentComparison(
        name=name,
        signature=f"{facts}|bs:{bootstrap}|seed:{signatures[name].info['seed']}|{version_fact()}",
        systems=system_scores(
            list(systems), cast("list[Result]", results[name]), lengths.pop() >= MIN_RESAMPLED_SENTENCES
        ),
        segments={system: tuple(scores) for system, scores in systems.items()},
    )


class _Mean(Metric):
    """The mean as a metric of sacreBLEU, whose "hypotheses" are the scores of the segments."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.num_refs = name, 0

    def _extract_corpus_statistics(self, hypotheses: Sequence[Any], references: object) -> list[list[float]]:
        return [[score, 1.0] for score in hypotheses]

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> ResampledScore:
        return ResampledScore(self.name, math.fsum(score for score, _ in stats) / len(stats))

    def _compute_score_from_stats(self, stats: Any) -> ResampledScore:
        total, count = np.asarray(stats, np.float64)
        return ResampledScore(self.name, float(total / count))

    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError  # of texts, which there are none of

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[Any]:
        raise NotImplementedError
