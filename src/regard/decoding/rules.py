"""Rules that forbid tokens, and length limits.

A rule writes minus infinity where it forbids, without renormalising, so that a score stays the model's.
(Rules that change scores are in `penalties.py`.) Forced tokens (a prefix, the end at the greatest length)
override rules, and a hypothesis for which the rules forbid every token ends.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.errors import ConfigError
from regard.recipe import check_types

NO_TOKEN = -1  # where a row has fewer banned tokens than another
SOURCE_PADDING = NO_TOKEN  # after the end of a source in a row of sources


class GeneratedTokens:
    """The tokens of each row so far, as rules read them.

    `ids` has no bos and no eos; the first `prefix_lengths` tokens of a row are its prompt or forced prefix.
    `sources()` has a row for each request, padded with SOURCE_PADDING; `sentence` is the request of each row.
    `shift`: logits are log-probabilities plus this, where it is known.
    """

    def __init__(
        self,
        ids: Int64[Tensor, "rows length"],
        *,
        prefix_lengths: Int64[np.ndarray, " requests"] | None = None,
        sources: Callable[[], Int64[np.ndarray, "requests src_len"]] | None = None,
        sentence: Int64[np.ndarray, " rows"] | None = None,
        shift: Float[Tensor, "rows 1"] | None = None,
    ) -> None:
        self.ids, self.shift = ids, shift
        self._prefix_lengths, self._sources = prefix_lengths, sources
        self._sentence = np.zeros(len(ids), np.int64) if sentence is None else sentence

    @property
    def length(self) -> int:
        return self.ids.size(1)

    @property
    def prefix_lengths(self) -> Int64[Tensor, " rows"]:
        if self._prefix_lengths is None:
            return torch.zeros(len(self.ids), dtype=torch.int64)
        return torch.from_numpy(self._prefix_lengths[self._sentence])

    @property
    def source(self) -> Int64[Tensor, "rows src_len"]:
        if self._sources is None:
            return torch.empty(len(self.ids), 0, dtype=torch.int64)
        return torch.from_numpy(self._sources()[self._sentence])


@runtime_checkable
class Rule(Protocol):
    """Changes the log-probabilities of next tokens in place, given the tokens of each row so far."""

    changes_scores: ClassVar[bool]  # True if it changes scores; False: it only forbids

    @property
    def raises(self) -> bool:
        """True if it can raise a score, so that a search cannot drop hypotheses early."""
        ...

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None: ...


class ForbiddingRule:
    """A rule that writes minus infinity, or changes nothing."""

    changes_scores: ClassVar[bool] = False
    raises = False


class BanningRule(ForbiddingRule, ABC):
    """A rule that forbids few tokens of each row, which it names: a stepper may rank all others."""

    @abstractmethod
    def banned(self, generated: GeneratedTokens) -> Int64[Tensor, "rows banned"]:
        """The tokens that are forbidden next in each row, on the CPU; NO_TOKEN fills the rows up."""

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        tokens = self.banned(generated).to(log_probs.device)
        # amin, because NO_TOKEN stands for token 0 too
        least = torch.where(tokens == NO_TOKEN, torch.inf, -torch.inf).to(log_probs.dtype)
        log_probs.scatter_reduce_(1, tokens.clamp(min=0), least, reduce="amin")


@dataclass(frozen=True, kw_only=True)
class BannedTokens(ForbiddingRule):
    """Forbids these tokens: padding, bos."""

    ids: tuple[int, ...]

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        for token in self.ids:
            log_probs[:, token] = -torch.inf


@dataclass(frozen=True, kw_only=True)
class ForcedFirstToken:
    """Forces the first token of every output, BART's <s> for instance, at no cost in the search.

    No score rises by it later, since it is the first token. Its log-probability stays the model's.
    """

    token: int
    changes_scores: ClassVar[bool] = True
    raises = False

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        if generated.length == 0:
            log_probs.fill_(-torch.inf)
            log_probs[:, self.token] = 0.0


@dataclass(frozen=True, kw_only=True)
class BannedPhrases(BanningRule):
    """Forbids the last token of each of these phrases after the others."""

    phrases: tuple[tuple[int, ...], ...]

    def banned(self, generated: GeneratedTokens) -> Int64[Tensor, "rows banned"]:
        last = torch.tensor([phrase[-1] for phrase in self.phrases], dtype=torch.int64)
        begun = [ends_in(generated.ids, phrase[:-1]) for phrase in self.phrases]
        if not begun:
            return generated.ids.new_empty(len(generated.ids), 0)
        return few_columns(torch.where(torch.stack(begun, dim=1), last, NO_TOKEN))


def ends_in(ids: Int64[Tensor, "rows length"], phrase: Sequence[int]) -> Tensor:
    """True for each row whose last tokens are the phrase."""
    if len(phrase) > ids.size(1):
        return torch.zeros(len(ids), dtype=torch.bool)
    last = ids[:, ids.size(1) - len(phrase) :]
    return (last == torch.tensor(phrase, dtype=torch.int64)).all(dim=1)


@dataclass(frozen=True, kw_only=True)
class MinimumLength(BanningRule):
    """Forbids the end before `length` tokens, without the prefix."""

    length: int
    eos_id: int
    others: tuple[int, ...] = ()  # tokens that end a text too

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        return self.eos_id, *self.others

    def banned(self, generated: GeneratedTokens) -> Int64[Tensor, "rows ends"]:
        """All ends, or NO_TOKEN as often: as many in any row at any length."""
        short = generated.length - generated.prefix_lengths < self.length
        return torch.where(short[:, None], torch.tensor(self.ends), NO_TOKEN)


@dataclass(frozen=True, kw_only=True)
class NoRepeatNGrams(BanningRule):
    """Forbids a sequence of `size` tokens twice in one hypothesis (Paulus et al. 2018, section 2.5)."""

    size: int

    def banned(self, generated: GeneratedTokens) -> Int64[Tensor, "rows banned"]:
        return completions(generated.ids, generated.ids, self.size)


@dataclass(frozen=True, kw_only=True)
class NoRepeatSourceNGrams(BanningRule):
    """Forbids each sequence of `size` tokens of the source."""

    size: int

    def banned(self, generated: GeneratedTokens) -> Int64[Tensor, "rows banned"]:
        return completions(generated.ids, generated.source, self.size)


def completions(
    ids: Int64[Tensor, "rows length"], others: Int64[Tensor, "rows other_length"], size: int
) -> Int64[Tensor, "rows banned"]:
    """The tokens that would complete an n-gram of `others` after `ids`, row by row."""
    if ids.size(1) < size - 1 or others.size(1) < size:
        return ids.new_empty(len(ids), 0)
    known = others.unfold(1, size, 1)  # rows, positions, size
    current = ids[:, ids.size(1) - size + 1 :]
    repeats = (known[:, :, :-1] == current[:, None]).all(dim=2)
    return few_columns(torch.where(repeats, known[:, :, -1], NO_TOKEN))


def few_columns(tokens: Int64[Tensor, "rows columns"]) -> Int64[Tensor, "rows banned"]:
    """The distinct tokens of each row, in as many columns as the row that has most of them needs."""
    if bool((tokens == NO_TOKEN).all()):
        return tokens[:, :0]
    tokens = tokens.sort(dim=1).values
    tokens[:, 1:] = torch.where(tokens[:, 1:] == tokens[:, :-1], NO_TOKEN, tokens[:, 1:])
    most = int((tokens != NO_TOKEN).sum(dim=1).max())
    return tokens.sort(dim=1, descending=True).values[:, :most]


@dataclass(frozen=True, kw_only=True)
class LengthLimits:
    """The greatest length of a translation: ratio * source length + offset, within `least` and `most`."""

    ratio: float = 1.0
    offset: int = 50
    least: int = 0
    most: int = 1024

    def __post_init__(self) -> None:
        check_types(self, "limits", kind=ConfigError)
        if self.most < 1:
            raise ConfigError(f"limits.most is {self.most}, but must be at least 1", "it counts tokens")

    def longest(self, src_len: int) -> int:
        """The greatest length in tokens, without the ends of source and target."""
        return max(self.least, min(self.most, math.ceil(self.ratio * src_len + self.offset)))
