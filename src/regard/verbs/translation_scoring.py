"""The tokeniser and the order of metrics by which a verb scores translations."""

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
from regard.evaluation.translation import METRICS, MetricName, check_tokenizer


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How translations are scored: sacreBLEU's tokeniser, and the metrics, the one that says most first."""

    tokenize: str
    metrics: tuple[MetricName, ...]


def scoring_for(
    references: References, tokenize: Tokenize, say: Callable[[str], None] = console.note
) -> Scoring:
    """What fits these references; `say` gets a line about what `auto` took where that is not 13a.

    Raises:
        DataError: the tokeniser is unknown or cannot be used here.
    """
    writing = script_of_references(references)
    found = tokenizer_for(writing) if tokenize == AUTO else tokenize
    check_tokenizer(found)
    if tokenize == AUTO and found != "13a":
        say(explain_tokenizer(found, writing))
    return Scoring(tokenize=found, metrics=best_metric_first(METRICS, writing))
