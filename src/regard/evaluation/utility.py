"""Utility functions for minimum Bayes risk decoding: sentence scores by sacreBLEU's metrics."""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal


def sentence_utility(name: Literal["chrf", "bleu"]) -> Callable[[str, str], float]:
    """A function (text, reference) -> sentence-level chrF2, or BLEU with effective order."""
    from sacrebleu.metrics.bleu import BLEU  # slow to import, and every search can be asked for a utility
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF() if name == "chrf" else BLEU(effective_order=True)

    @lru_cache(maxsize=1 << 16)
    def utility(text: str, reference: str) -> float:
        return metric.sentence_score(text, [reference]).score

    return utility
