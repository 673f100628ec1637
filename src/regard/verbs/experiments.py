"""What proposals gave: the runs of docs/recipes-by-size.md, and the score to expect from them."""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

NEAR = math.log(3)  # how far a run's corpus and length may be from the one in question
ALLOWANCE = 0.15  # of another domain, another language


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run of a proposal and its scores on a test set that nothing was chosen by."""

    corpus: str
    pairs: int
    command: str
    machine: str  # processor and what was used of it
    minutes: float  # wall-clock time of `regard train`
    target_tokens: int  # trained on, repetitions counted
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
    """All of them, by size and length."""
    text = files("regard.verbs").joinpath("experiments.toml").read_text("utf-8")
    found = [Experiment(**row) for row in tomllib.loads(text).get("experiment", ())]
    return tuple(sorted(found, key=lambda each: (each.pairs, each.corpus, each.target_tokens)))


def expected_bleu(pairs: int, target_tokens: float, tokenize: str = "13a") -> tuple[float, float] | None:
    """The interval of BLEU that runs like this one gave; None where none was like it.

    Runs are alike if neither the pairs nor the target tokens differ by more than a factor of three, and
    sacreBLEU's tokeniser is the same.
    """

    def is_near(each: Experiment) -> bool:
        distances = math.log(each.pairs / pairs), math.log(each.target_tokens / target_tokens)
        return max(map(abs, distances)) <= NEAR

    scores = [each.bleu for each in experiments() if each.tokenize == tokenize and is_near(each)]
    if not scores:
        return None
    return round(min(scores) * (1 - ALLOWANCE), 1), round(max(scores) * (1 + ALLOWANCE), 1)
