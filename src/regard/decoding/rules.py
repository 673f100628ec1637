"""What a hypothesis may not say, and how long it may be.

A rule writes minus infinity where it forbids; it does not share out the probability anew, so a
score stays the model's. What is forced (a prefix, the end at the greatest length) overrides rules,
and a hypothesis to which the rules leave nothing ends.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor


@runtime_checkable
class Rule(Protocol):
    """Forbids next tokens in place, seeing what each row has said so far (no bos, no eos)."""

    def __call__(
        self, log_probs: Float[Tensor, "rows vocab"], history: Int64[Tensor, "rows length"]
    ) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Banned:
    """These tokens are never said: padding, the sign of the beginning."""

    ids: tuple[int, ...]

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], history: Int64[Tensor, "rows length"]) -> None:
        for token in self.ids:
            log_probs[:, token] = -torch.inf


@dataclass(frozen=True, kw_only=True)
class MinimumLength:
    """No end before `length` tokens."""

    length: int
    eos_id: int

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], history: Int64[Tensor, "rows length"]) -> None:
        if history.size(1) < self.length:
            log_probs[:, self.eos_id] = -torch.inf


@dataclass(frozen=True, kw_only=True)
class NoRepeatNGrams:
    """No sequence of `size` tokens twice in one hypothesis (Paulus et al. 2018, section 2.5)."""

    size: int

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], history: Int64[Tensor, "rows length"]) -> None:
        if history.size(1) < self.size:
            return
        history = history.to(log_probs.device)
        said = history.unfold(1, self.size, 1)  # rows, positions, size
        current = history[:, history.size(1) - self.size + 1 :]
        repeats = (said[:, :, :-1] == current[:, None]).all(dim=2)
        # amin, because one token may end a repeated n-gram at one place and another at the next
        least = torch.where(repeats, -torch.inf, torch.inf).to(log_probs.dtype)
        log_probs.scatter_reduce_(1, said[:, :, -1], least, reduce="amin")


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
