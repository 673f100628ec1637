"""The requests to a search, and its hypotheses with their scores."""

import hashlib
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

from regard.errors import ConfigError
from regard.recipe import check_types

Phrase = tuple[int, ...]
Constraint = tuple[Phrase, ...]  # of which a text must have one


@dataclass(frozen=True, kw_only=True)
class Request:
    """One sentence to decode, from the beginning or after a forced `prefix`.

    The search begins after the first `begun` tokens of the prefix, of which the stepper has read all but the
    last; the number is the same for all requests of a batch.
    """

    src_len: int  # tokens without the end
    prefix: tuple[int, ...] = ()
    begun: int = 0
    uncounted: int = 0  # tokens of the prefix that do not count for scores and lengths: a prompt
    index: int = 0  # its place in the whole input
    most: int = sys.maxsize  # tokens that the model can read
    source: tuple[int, ...] | None = None  # None: unknown
    required: tuple[Constraint, ...] = ()  # for a constrained search, besides what it requires of each

    @cached_property
    def noise(self) -> int:
        """The seed of its noise: a hash of source and prefix, or its index if the source is unknown."""
        return self.index if self.source is None else noise_of(self.source, self.prefix)


def noise_of(*sequences: tuple[int, ...]) -> int:
    """A hash of these ids, the same on every machine."""
    hashed = sequences[0] if len(sequences) == 1 else sequences
    return int.from_bytes(hashlib.sha256(repr(hashed).encode()).digest()[:7], "big")


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A finished hypothesis. Its probability and length count its end token, if it has one."""

    ids: list[int]  # without bos and eos
    log_prob: float  # nats, the end included
    score: float  # log_prob, changed by the rules, over the length penalty
    token_log_probs: list[float] = field(repr=False)  # the last is the end's
    # of each of these the most probable tokens, ids and log-probabilities; empty unless they are recorded
    alternatives: list[tuple[tuple[int, float], ...]] = field(default_factory=list, repr=False)


@runtime_checkable
class LengthPenalty(Protocol):
    """The divisor of a hypothesis's log-probability.

    It must not fall as `length` (tokens, the end included) grows: stopping relies on it.
    """

    def __call__(self, length: int) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Wu:
    """((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14; in Vaswani et al. 2017 alpha is 0.6)."""

    alpha: float

    def __post_init__(self) -> None:
        check_types(self, "length_penalty", kind=ConfigError)

    def __call__(self, length: int) -> float:
        return ((5 + length) / 6) ** self.alpha


@dataclass(frozen=True, kw_only=True)
class Power:
    """|Y|^alpha: with alpha 1 the score is the mean log-probability of a token, with 0 their sum."""

    alpha: float

    def __post_init__(self) -> None:
        check_types(self, "length_penalty", kind=ConfigError)

    def __call__(self, length: int) -> float:
        return float(length**self.alpha)


def best_first(hypotheses: list[Hypothesis], count: int) -> list[Hypothesis]:
    """The `count` best hypotheses; of equal scores the lower ids first."""
    return sorted(hypotheses, key=lambda hypothesis: (-hypothesis.score, hypothesis.ids))[:count]
