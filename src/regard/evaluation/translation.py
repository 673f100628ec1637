"""BLEU, chrF++ and TER by sacreBLEU (Post 2018), with signatures, intervals and paired significance.

The numbers are those of `sacrebleu -m bleu chrf ter --chrf-word-order 2 --confidence`. Its seed is
12345 unless SACREBLEU_SEED says otherwise, and stands in the signature.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER, TERScore
from sacrebleu.significance import PairedTest, Result

from regard.errors import DataError, did_you_mean
from regard.evaluation.score import Score
from regard.evaluation.streams import References, check_aligned

TOKENIZERS = ("13a", "none", "intl", "char", "zh")  # those of sacreBLEU that need nothing else
MetricName = Literal["bleu", "chrf", "ter"]
METRICS: tuple[MetricName, ...] = ("bleu", "chrf", "ter")
MANY = 100  # lines that look wrong before it is said; sacreBLEU's own bound


@dataclass(frozen=True, kw_only=True)
class SystemScore:
    """What one of several compared systems reaches; the first is the baseline and has no `p_value`."""

    system: str
    value: float
    low: float
    high: float
    p_value: float | None  # of a difference to the baseline as large as this, if there were none


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Systems compared by one metric."""

    name: str
    signature: str
    systems: tuple[SystemScore, ...]


def corpus_scores(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    bootstrap: int = 1000,
    metrics: Sequence[MetricName] = METRICS,
) -> list[Score]:
    """BLEU, chrF2++ and TER of a corpus.

    Args:
        references: `references[r][i]` is reference r of line i, None where a line has fewer.
        tokenize: how BLEU finds words: `13a`, or `none` for text that is tokenised already.
        lowercase: without regard to case (TER never regards it, as is sacreBLEU's default).
        bootstrap: resamples for the intervals (Koehn 2004); 0 for none.

    Raises:
        DataError: the counts of lines differ, or there are none.
    """
    check_aligned(hypotheses, references)
    streams = cast("Sequence[Sequence[str]]", references)  # that an item may be None, its types do not say
    scores = []
    for metric in _metrics(metrics, tokenize, lowercase).values():
        score = metric.corpus_score(hypotheses, streams, n_bootstrap=bootstrap or 1)
        signature = str(metric.get_signature())
        facts = json.loads(score.format(width=6, signature=signature, is_json=True))
        low = high = None
        if bootstrap:  # sacreBLEU leaves out an interval around 0
            mean, half = facts.get("confidence_mean", score.score), facts.get("confidence_var", 0.0)
            low, high = mean - half, mean + half
        scores.append(Score(name=score.name, value=score.score, low=low, high=high, signature=signature))
    return scores


def compare_systems(
    systems: Mapping[str, Sequence[str]],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    bootstrap: int = 1000,
) -> list[Comparison]:
    """Each system against the first, by paired bootstrap resampling (Koehn 2004), metric by metric.

    Raises:
        DataError: fewer than two systems, or lines that are not aligned.
    """
    if len(systems) < 2:
        raise DataError("one system alone cannot be compared", "name two outputs or more, the baseline first")
    for name, hypotheses in systems.items():
        check_aligned(hypotheses, references, name)
    test = PairedTest(
        list(systems.items()),
        _metrics(METRICS, tokenize, lowercase),
        cast("Sequence[Sequence[str]]", references),
        test_type="bs",
        n_samples=bootstrap,
    )
    signatures, results = test()
    return [
        Comparison(
            name=name,
            signature=str(signature),
            systems=_system_scores(list(systems), cast("list[Result]", results[name])),
        )
        for name, signature in signatures.items()
    ]


def _system_scores(names: list[str], results: list[Result]) -> tuple[SystemScore, ...]:
    scores = []
    for name, result in zip(names, results, strict=True):
        mean, half, p_value = float(result.mean or 0), float(result.ci or 0), result.p_value
        if p_value is not None and result.score == results[0].score:
            p_value = 1.0  # no difference at all; sacreBLEU would count it as none of chance's making
        scores.append(
            SystemScore(
                system=name, value=float(result.score), low=mean - half, high=mean + half, p_value=p_value
            )
        )
    return tuple(scores)


def cautions(hypotheses: Sequence[str], *, tokenize: str = "13a") -> list[str]:
    """What speaks against the chosen `tokenize`: text that looks tokenised, or that does not."""
    endings = [line.rstrip()[-2:] for line in hypotheses]
    apart = endings.count(" .")
    attached = sum(ending.endswith(".") for ending in endings) - apart
    if tokenize != "none" and apart >= MANY:
        return [f"{apart:,} lines end in a full stop set apart: if the text is tokenised, --tokenize none"]
    if tokenize == "none" and attached >= MANY:
        return [f"{attached:,} lines end in a full stop that --tokenize none takes for part of a word"]
    return []


def _metrics(names: Sequence[MetricName], tokenize: str, lowercase: bool) -> dict[str, Metric]:
    if tokenize not in TOKENIZERS:
        raise DataError(f"no tokeniser of scores is called {tokenize!r}", did_you_mean(tokenize, TOKENIZERS))
    metrics: dict[MetricName, Metric] = {
        "bleu": BLEU(
            tokenize=tokenize, lowercase=lowercase, force=True
        ),  # what it would log, `cautions` says
        "chrf": _Chrf(word_order=2, lowercase=lowercase),
        "ter": _Ter(),
    }
    return {name: metrics[name] for name in names}


class _Chrf(CHRF):
    """sacreBLEU's, whose scores are one kind of float: of a mixture no mean can be computed."""

    def _compute_score_from_stats(self, stats: Any) -> CHRFScore:
        found = super()._compute_score_from_stats(stats)
        found.score = float(found.score)  # float32 of a resample with a match, float of one without
        return found


class _Ter(TER):
    """The same for TER, whose resamples may have no word in their references."""

    def _compute_score_from_stats(self, stats: Any) -> TERScore:
        found = super()._compute_score_from_stats(stats)
        found.score = float(found.score)
        return found
