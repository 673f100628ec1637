"""What is asked of a search and what it answers: requests, hypotheses and their scores."""

import hashlib
import sys
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class Request:
    """One sentence to be continued from the beginning, or from a forced `prefix`.

    The first `said` tokens of the prefix are said before the search begins, and all but the last of them the
    stepper has read; it is the same number for all requests of a batch.
    """

    src_len: int  # tokens without the end
    prefix: tuple[int, ...] = ()
    said: int = 0
    uncounted: int = 0  # tokens of the prefix that are no part of the hypothesis: its prompt
    index: int = 0  # its place in the whole input
    most: int = sys.maxsize  # tokens that the model can read, whatever the limits say
    source: tuple[int, ...] | None = None  # None: not told

    @property
    def noise(self) -> int:
        """What its chance is drawn from: what is to be continued, where it is known, else its place."""
        return self.index if self.source is None else noise_of(self.source, self.prefix)


def noise_of(*sequences: tuple[int, ...]) -> int:
    """A number for these ids, the same on every machine."""
    given = sequences[0] if len(sequences) == 1 else sequences
    return int.from_bytes(hashlib.sha256(repr(given).encode()).digest()[:7], "big")


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A finished translation. Its end counts as a token in its probability and in its length.

    One that ended by a stop text has no end.
    """

    ids: list[int]  # without bos and eos
    log_prob: float  # nats, the end included
    score: float  # log_prob, with what rules have weighed, by the length penalty
    token_log_probs: list[float] = field(repr=False)  # the last is the end's


@runtime_checkable
class LengthPenalty(Protocol):
    """What the log-probability of a hypothesis is divided by.

    Must not fall as `length` (tokens, the end included) grows: the stopping rule counts on it.
    """

    def __call__(self, length: int) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Wu:
    """((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14; in Vaswani et al. 2017 alpha is 0.6)."""

    alpha: float

    def __call__(self, length: int) -> float:
        return ((5 + length) / 6) ** self.alpha


@dataclass(frozen=True, kw_only=True)
class Power:
    """|Y|^alpha: with alpha 1 the score is the mean log-probability of a token, with 0 their sum."""

    alpha: float

    def __call__(self, length: int) -> float:
        return float(length**self.alpha)


def best_first(hypotheses: list[Hypothesis], count: int) -> list[Hypothesis]:
    """The `count` best; of equal scores the lower ids first."""
    return sorted(hypotheses, key=lambda hypothesis: (-hypothesis.score, hypothesis.ids))[:count]
