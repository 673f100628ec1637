"""Measured runs of recipes of `regard new`, and expected scores from them."""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

MAX_DISTANCE = math.log(3)  # of a similar run's corpus size and length, in log space
ALLOWANCE = 0.15  # relative margin for another domain or language


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run of a proposed recipe, and its scores on a test set that was used for nothing else."""

    corpus: str
    pairs: int
    command: str
    machine: str  # processor, and the cores that were used
    minutes: float  # wall-clock time of `regard train`
    target_tokens: int  # of all epochs
    model: str  # d_model, layers of encoder + decoder
    parameters: int
    steps: int
    test: str
    tokenize: str = "13a"  # sacreBLEU's
    bleu: float
    chrf: float
    seed: int = 1


@cache
def experiments() -> tuple[Experiment, ...]:
    """All measured runs, sorted by corpus size and length."""
    text = files("regard.verbs.proposals").joinpath("experiments.toml").read_text("utf-8")
    runs = [Experiment(**row) for row in tomllib.loads(text).get("experiment", ())]
    return tuple(sorted(runs, key=lambda each: (each.pairs, each.corpus, each.target_tokens)))


def expected_bleu(pairs: int, target_tokens: float, tokenize: str = "13a") -> tuple[float, float] | None:
    """The interval of BLEU of similar runs; None if there is none.

    A run is similar if its pairs and its target tokens differ by at most a factor of three, and sacreBLEU's
    tokeniser is the same.
    """

    def is_similar(each: Experiment) -> bool:
        distances = math.log(each.pairs / pairs), math.log(each.target_tokens / target_tokens)
        return max(map(abs, distances)) <= MAX_DISTANCE

    scores = [each.bleu for each in experiments() if each.tokenize == tokenize and is_similar(each)]
    if not scores:
        return None
    return round(min(scores) * (1 - ALLOWANCE), 1), round(max(scores) * (1 + ALLOWANCE), 1)
