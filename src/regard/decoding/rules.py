"""Rules that forbid tokens, and length limits.

A rule writes minus infinity where it forbids, without renormalising, so that a score stays the model's.
(Rules that change scores are in `penalties.py`.) Forced tokens (a prefix, the end at the greatest length)
override rules, and a hypothesis for which the rules forbid every token ends.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.errors import ConfigError

SOURCE_PADDING = -1  # after the end of a source in a row of sources


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
class BannedPhrases(ForbiddingRule):
    """Forbids the last token of each of these phrases after the others."""

    phrases: tuple[tuple[int, ...], ...]

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        for phrase in self.phrases:
            ending = ends_in(generated.ids, phrase[:-1]).to(log_probs.device)
            log_probs[:, phrase[-1]].masked_fill_(ending, -torch.inf)


def ends_in(ids: Int64[Tensor, "rows length"], phrase: Sequence[int]) -> Tensor:
    """True for each row whose last tokens are the phrase."""
    if len(phrase) > ids.size(1):
        return torch.zeros(len(ids), dtype=torch.bool)
    last = ids[:, ids.size(1) - len(phrase) :]
    return (last == torch.tensor(phrase, dtype=torch.int64)).all(dim=1)


@dataclass(frozen=True, kw_only=True)
class MinimumLength(ForbiddingRule):
    """Forbids the end before `length` tokens, without the prefix."""

    length: int
    eos_id: int
    others: tuple[int, ...] = ()  # tokens that end a text too

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        short = (generated.length - generated.prefix_lengths < self.length).to(log_probs.device)
        for token in (self.eos_id, *self.others):
            log_probs[:, token].masked_fill_(short, -torch.inf)


@dataclass(frozen=True, kw_only=True)
class NoRepeatNGrams(ForbiddingRule):
    """Forbids a sequence of `size` tokens twice in one hypothesis (Paulus et al. 2018, section 2.5)."""

    size: int

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        forbid_repeats(log_probs, generated.ids, generated.ids, self.size)


@dataclass(frozen=True, kw_only=True)
class NoRepeatSourceNGrams(ForbiddingRule):
    """Forbids each sequence of `size` tokens of the source."""

    size: int

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        forbid_repeats(log_probs, generated.ids, generated.source, self.size)


def forbid_repeats(
    log_probs: Float[Tensor, "rows vocab"],
    ids: Int64[Tensor, "rows length"],
    others: Int64[Tensor, "rows other_length"],
    size: int,
) -> None:
    """Forbid in each row the tokens that would complete an n-gram of `others`."""
    if ids.size(1) < size - 1 or others.size(1) < size:
        return
    ids, others = ids.to(log_probs.device), others.to(log_probs.device)
    known = others.unfold(1, size, 1)  # rows, positions, size
    current = ids[:, ids.size(1) - size + 1 :]
    repeats = (known[:, :, :-1] == current[:, None]).all(dim=2) & (known[:, :, -1] != SOURCE_PADDING)
    # amin, because one token may end a repeated n-gram at one place and another at the next
    least = torch.where(repeats, -torch.inf, torch.inf).to(log_probs.dtype)
    log_probs.scatter_reduce_(1, known[:, :, -1].clamp(min=0), least, reduce="amin")


@dataclass(frozen=True, kw_only=True)
class LengthLimits:
    """The greatest length of a translation: ratio * source length + offset, within `least` and `most`."""

    ratio: float = 1.0
    offset: int = 50
    least: int = 0
    most: int = 1024

    def __post_init__(self) -> None:
        if not math.isfinite(self.ratio):
            raise ConfigError(f"ratio of a length limit is {self.ratio}", "1 to 2 is usual")

    def longest(self, src_len: int) -> int:
        """The greatest length in tokens, without the ends of source and target."""
        return max(self.least, min(self.most, math.ceil(self.ratio * src_len + self.offset)))
