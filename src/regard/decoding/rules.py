"""What a hypothesis may not say, and how long it may be.

A rule writes minus infinity where it forbids; it does not share out the probability anew, so a
score stays the model's. (Rules that weigh are in `penalties.py`.) What is forced (a prefix, the end at
the greatest length) overrides rules, and a hypothesis to which the rules leave nothing ends.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

NOTHING = -1  # no token: where a row of sources is shorter than the longest


class GeneratedTokens:
    """What the rows of a step have said so far, for rules to look at; what none asks for costs nothing.

    `ids` has no bos and no eos; the first `given` tokens of a row are its prompt or its forced beginning.
    `sources()` has a row for each request, padded with NOTHING, and `sentence` names the one of each row.
    `shift`: logits are log-probabilities plus this, where the model has told.
    """

    def __init__(
        self,
        ids: Int64[Tensor, "rows length"],
        *,
        given: Int64[np.ndarray, " requests"] | None = None,
        sources: Callable[[], Int64[np.ndarray, "requests src_len"]] | None = None,
        sentence: Int64[np.ndarray, " rows"] | None = None,
        shift: Float[Tensor, "rows 1"] | None = None,
    ) -> None:
        self.ids, self.shift = ids, shift
        self._given, self._sources = given, sources
        self._sentence = np.zeros(len(ids), np.int64) if sentence is None else sentence

    @property
    def length(self) -> int:
        return self.ids.size(1)

    @property
    def given(self) -> Int64[Tensor, " rows"]:
        if self._given is None:
            return torch.zeros(len(self.ids), dtype=torch.int64)
        return torch.from_numpy(self._given[self._sentence])

    @property
    def source(self) -> Int64[Tensor, "rows src_len"]:
        if self._sources is None:
            return torch.empty(len(self.ids), 0, dtype=torch.int64)
        return torch.from_numpy(self._sources()[self._sentence])


@runtime_checkable
class Rule(Protocol):
    """Changes the log-probabilities of next tokens in place, seeing what each row has said so far."""

    weighs: ClassVar[bool]  # False: it only forbids

    @property
    def raises(self) -> bool:
        """Whether a score may rise by it, so that a search cannot tell early what loses."""
        ...

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None: ...


class ForbiddingRule:
    """A rule that writes minus infinity, or leaves things as they are."""

    weighs: ClassVar[bool] = False
    raises = False


@dataclass(frozen=True, kw_only=True)
class BannedTokens(ForbiddingRule):
    """These tokens are never said: padding, the sign of the beginning."""

    ids: tuple[int, ...]

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        for token in self.ids:
            log_probs[:, token] = -torch.inf


@dataclass(frozen=True, kw_only=True)
class ForcedFirstToken:
    """Every output begins with this token, BART's <s> for instance; being forced, it costs a search nothing.

    No score rises by it later: it is the first of all tokens. The told log-probability stays the model's.
    """

    token: int
    weighs: ClassVar[bool] = True
    raises = False

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        if said.length == 0:
            log_probs.fill_(-torch.inf)
            log_probs[:, self.token] = 0.0


@dataclass(frozen=True, kw_only=True)
class BannedPhrases(ForbiddingRule):
    """No token that would complete one of these sequences."""

    phrases: tuple[tuple[int, ...], ...]

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        for phrase in self.phrases:
            ending = ends_in(said.ids, phrase[:-1]).to(log_probs.device)
            log_probs[:, phrase[-1]].masked_fill_(ending, -torch.inf)


def ends_in(ids: Int64[Tensor, "rows length"], phrase: Sequence[int]) -> Tensor:
    """Of each row, whether its last tokens are the phrase."""
    if len(phrase) > ids.size(1):
        return torch.zeros(len(ids), dtype=torch.bool)
    last = ids[:, ids.size(1) - len(phrase) :]
    return (last == torch.tensor(phrase, dtype=torch.int64)).all(dim=1)


@dataclass(frozen=True, kw_only=True)
class MinimumLength(ForbiddingRule):
    """No end before `length` tokens, those that were given not counted."""

    length: int
    eos_id: int
    others: tuple[int, ...] = ()  # tokens that end a text too

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        short = (said.length - said.given < self.length).to(log_probs.device)
        for token in (self.eos_id, *self.others):
            log_probs[:, token].masked_fill_(short, -torch.inf)


@dataclass(frozen=True, kw_only=True)
class NoRepeatNGrams(ForbiddingRule):
    """No sequence of `size` tokens twice in one hypothesis (Paulus et al. 2018, section 2.5)."""

    size: int

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        forbid_repeats(log_probs, said.ids, said.ids, self.size)


@dataclass(frozen=True, kw_only=True)
class NoRepeatSourceNGrams(ForbiddingRule):
    """No sequence of `size` tokens that stands in the source."""

    size: int

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        forbid_repeats(log_probs, said.ids, said.source, self.size)


def forbid_repeats(
    log_probs: Float[Tensor, "rows vocab"],
    ids: Int64[Tensor, "rows length"],
    others: Int64[Tensor, "rows other_length"],
    size: int,
) -> None:
    """Forbid what would end in each row an n-gram that stands in `others`."""
    if ids.size(1) < size - 1 or others.size(1) < size:
        return
    ids, others = ids.to(log_probs.device), others.to(log_probs.device)
    known = others.unfold(1, size, 1)  # rows, positions, size
    current = ids[:, ids.size(1) - size + 1 :]
    repeats = (known[:, :, :-1] == current[:, None]).all(dim=2) & (known[:, :, -1] != NOTHING)
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

    def longest(self, src_len: int) -> int:
        """In tokens, the ends of source and target not counted."""
        return max(self.least, min(self.most, math.ceil(self.ratio * src_len + self.offset)))
