"""The choice of sacreBLEU's tokeniser and the order of metrics for a set of references."""

from collections.abc import Callable
from dataclasses import dataclass

from regard import console
from regard.evaluation.line_pairs import References
from regard.evaluation.tokenizers import (
    AUTO,
    Tokenize,
    best_metric_first,
    explain_tokenizer,
    script_of_references,
    tokenizer_for,
)
from regard.evaluation.translation import METRIC_NAMES, MetricName, check_tokenizer


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How to score translations: sacreBLEU's tokeniser, and the metrics, the most informative first."""

    tokenize: str
    metrics: tuple[MetricName, ...]


def scoring_for(
    references: References, tokenize: Tokenize, say: Callable[[str], None] = console.note
) -> Scoring:
    """The scoring for these references; if "auto" chooses another tokeniser than 13a, `say` gets a note.

    Raises:
        DataError: the tokeniser is unknown or cannot be used here.
    """
    writing = script_of_references(references)
    chosen = tokenizer_for(writing) if tokenize == AUTO else tokenize
    check_tokenizer(chosen)
    if tokenize == AUTO and chosen != "13a":
        say(explain_tokenizer(chosen, writing))
    return Scoring(tokenize=chosen, metrics=best_metric_first(METRIC_NAMES, writing))
