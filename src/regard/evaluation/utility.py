"""Utility functions for minimum Bayes risk decoding: sentence scores by sacreBLEU's metrics."""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


def sentence_utility(name: Literal["chrf", "bleu"]) -> Callable[[str, str], float]:
    """A function (text, reference) -> sentence-level chrF2, or BLEU with effective order."""
    metric = CHRF() if name == "chrf" else BLEU(effective_order=True)

    @lru_cache(maxsize=1 << 16)
    def utility(text: str, reference: str) -> float:
        return metric.sentence_score(text, [reference]).score

    return utility
