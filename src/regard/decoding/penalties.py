"""Penalties and boosts: rules that change scores without forbidding tokens.

Searches rank and sample tokens by the changed scores, and `Hypothesis.score` sums them.
`Hypothesis.log_prob` stays the model's own.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.rules import GeneratedTokens, ends_in


@dataclass(frozen=True, kw_only=True)
class RepetitionPenalty:
    """Make tokens of the text and its prompt less likely (Keskar et al. 2019, equation 2).

    Logits below 0 are multiplied by `penalty`, others divided by it. A beam search has no logits: there all
    log-probabilities, which are at most 0, are multiplied.
    """

    changes_scores: ClassVar[bool] = True
    penalty: float

    @property
    def raises(self) -> bool:
        return self.penalty < 1

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        ids = generated.ids.to(log_probs.device)
        old = log_probs.gather(1, ids)
        shift = torch.zeros((), device=old.device) if generated.shift is None else generated.shift
        logits = old + shift
        new = torch.where(logits < 0, logits * self.penalty, logits / self.penalty) - shift
        log_probs.scatter_(1, ids, torch.where(old.isfinite(), new, old))  # forbidden tokens stay so


@dataclass(frozen=True, kw_only=True)
class PresencePenalty:
    """Subtract `penalty` from each token that was generated; prompts do not count."""

    changes_scores: ClassVar[bool] = True
    penalty: float

    @property
    def raises(self) -> bool:
        return self.penalty < 0

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        log_probs -= self.penalty * (_counts(log_probs, generated) > 0)


@dataclass(frozen=True, kw_only=True)
class FrequencyPenalty:
    """Subtract `penalty` from a token for each time that it was generated; prompts do not count."""

    changes_scores: ClassVar[bool] = True
    penalty: float

    @property
    def raises(self) -> bool:
        return self.penalty < 0

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        log_probs -= self.penalty * _counts(log_probs, generated)


def _counts(
    log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens
) -> Float[Tensor, "rows vocab"]:
    """How often each row has generated each token, without its prompt or prefix."""
    ids: Int64[Tensor, "rows length"] = generated.ids.to(log_probs.device)
    is_generated = torch.arange(generated.length)[None] >= generated.prefix_lengths[:, None]
    counts = torch.zeros_like(log_probs)
    return counts.scatter_add_(1, ids, is_generated.to(log_probs))


@dataclass(frozen=True, kw_only=True)
class PhraseBoost:
    """Add `strength` to each token that begins one of these phrases, or continues one that has begun.

    A token gets it once, even if several phrases have it there. Below 0 it makes the phrases less likely.
    """

    changes_scores: ClassVar[bool] = True
    phrases: tuple[tuple[int, ...], ...]
    strength: float

    @property
    def raises(self) -> bool:
        return self.strength > 0

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        boosted = torch.zeros_like(log_probs)  # 1 for each token to boost
        for phrase in self.phrases:
            for position, token in enumerate(phrase):
                continues = ends_in(generated.ids, phrase[:position]).to(log_probs)
                boosted[:, token] = torch.maximum(boosted[:, token], continues)
        log_probs += self.strength * boosted
