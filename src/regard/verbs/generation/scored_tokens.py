"""The tokens of an answer with their log-probabilities, and the most probable others at each step."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from regard.data.tokenizer import Tokenizer
from regard.decoding.rows import TakenToken

Alternatives = tuple[tuple[str, float], ...]  # tokens and their log-probabilities (nats), best first


@dataclass(frozen=True)
class ScoredToken:
    """A token, its log-probability (nats), and the most probable tokens in its place, if asked for."""

    token: str
    log_prob: float
    alternatives: Alternatives = ()


class TextWithTokens(str):
    """A part of a text, and the tokens that it came with."""

    tokens: Sequence[ScoredToken]

    def __new__(cls, text: str, tokens: Sequence[ScoredToken] = ()) -> "TextWithTokens":
        part = super().__new__(cls, text)
        part.tokens = tuple(tokens)
        return part


@runtime_checkable
class ScoredText(Protocol):
    """A candidate translation, or a continuation."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def log_probs_of_tokens(self) -> tuple[float, ...]: ...
    @property
    def alternatives(self) -> tuple[Alternatives, ...]: ...


def scored_tokens(text: ScoredText) -> list[ScoredToken]:
    """The tokens of a text, without ends."""
    alternatives = text.alternatives or ((),) * len(text.tokens)
    return [*map(ScoredToken, text.tokens, text.log_probs_of_tokens, alternatives)]


def named(
    tokenizer: Tokenizer, alternatives: Iterable[Sequence[tuple[int, float]]]
) -> tuple[Alternatives, ...]:
    """The alternatives of each token, by their texts instead of their ids."""
    return tuple(
        tuple(zip(tokenizer.tokens([token for token, _ in each]), (value for _, value in each), strict=True))
        for each in alternatives
    )


def naming(tokenizer: Tokenizer) -> Callable[[Sequence[TakenToken]], list[ScoredToken]]:
    """A function from the tokens of a search to scored tokens."""

    def scored(taken: Sequence[TakenToken]) -> list[ScoredToken]:
        names = tokenizer.tokens([each.token for each in taken])
        alternatives = named(tokenizer, [each.alternatives for each in taken])
        return [*map(ScoredToken, names, [each.log_prob for each in taken], alternatives)]

    return scored
