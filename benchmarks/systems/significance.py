"""Scores of translations, and the significance of differences between two systems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

SAMPLES = 1000
SIGNIFICANT = 0.05


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How far a system is ahead of another in BLEU.

    `p` is the probability of a difference as large as this by chance, by sacreBLEU's paired bootstrap (Koehn
    2004).
    """

    bleu: float
    p: float


def scored(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU (13a) and chrF with their signatures."""
    bleu, chrf = BLEU(), CHRF()
    return {
        "bleu": round(bleu.corpus_score(translations, [references]).score, 2),
        "chrf": round(float(chrf.corpus_score(translations, [references]).score), 2),
        "signatures": [str(bleu.get_signature()), str(chrf.get_signature())],
    }


def ahead(
    system: Sequence[str],
    others: Mapping[str, Sequence[str]],
    references: Sequence[str],
    samples: int = SAMPLES,
) -> dict[str, Difference]:
    """How far `system` is ahead of each of the others; below 0 where it is behind."""
    if not others:
        return {}
    named = [("the system", list(system)), *((name, list(lines)) for name, lines in others.items())]
    test = PairedTest(named, {"BLEU": BLEU()}, [list(references)], test_type="bs", n_samples=samples)
    _, results = test()
    first, *rest = cast("list[Result]", results["BLEU"])
    return {
        name: Difference(bleu=first.score - result.score, p=_p_value(first, result))
        for name, result in zip(others, rest, strict=True)
    }


def _p_value(first: Result, second: Result) -> float:
    """The p-value; 1 for equal scores, which sacreBLEU would call significant."""
    if first.score == second.score or second.p_value is None:
        return 1.0
    return float(second.p_value)
