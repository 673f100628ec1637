"""Which of several runs is the best: the score that compares them, and the rank of each by it."""

import math
from collections.abc import Mapping, Sequence

from regard.training.best import deciding_metrics
from regard.training.settings import is_higher_better, measured_name

LOSS = "loss"
DEFAULT_KIND = "translation"  # of a recipe that names none
PER_TOKEN = {  # scores for each token by task: what they are of depends on the tokeniser
    DEFAULT_KIND: (LOSS,),
    "language_model": (LOSS,),
    "masked_language_model": (LOSS, "accuracy"),
}
NOT_COMPARABLE = "scores per token of different tokenisers do not compare"


def comparable_metric(
    metric: str, task: str, validations: Sequence[Mapping[str, float]], *, same_tokens: bool
) -> str | None:
    """The score by which runs compare that are selected by `metric`; None if there is none.

    Args:
        validations: the scores of each run.
        same_tokens: False if what they predict is divided into tokens in different ways.
    """
    names = set.intersection(*map(set, validations)) if validations else set[str]()
    if metric not in PER_TOKEN.get(task, ()):
        return metric
    for name in ("bits_per_character", *(() if same_tokens else ("bleu", "chrf++"))):
        if name in names:
            return name
    return metric if same_tokens else None


def ranks_of(validation: Mapping[str, float], metric: str | None) -> dict[str, float | None]:
    """The rank of a run by these scores, and what decides between equal ones, the loss. Less is better.

    Runs are compared as the models within one are: below some BLEU by chrF++. Without a metric they are not.
    """
    if metric is None:
        return {"rank": None, "second_rank": None}
    scores, name = ranking_scores(validation, metric), measured_name(metric)
    if scores and name not in scores:  # such runs are equal by `metric`, and others are better
        return {"rank": 0.0, "second_rank": _rank(*next(iter(scores.items())))}
    rank = _rank(metric, scores[name]) if scores else None
    return {"rank": rank, "second_rank": _finite(validation).get(LOSS)}


def ranking_scores(validation: Mapping[str, float], metric: str) -> dict[str, float]:
    """The score that ranks a run with these scores, by its name; empty if `metric` was not measured."""
    finite = _finite(validation)
    if (own := measured_name(metric)) not in finite:
        return {}
    names = map(measured_name, deciding_metrics(metric, [finite[own]]))
    known = [name for name in names if finite.get(name)] or [own]
    return {known[0]: finite[known[0]]}


def _rank(metric: str, value: float) -> float:
    return -value if is_higher_better(metric) else value


def _finite(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if math.isfinite(value)}
