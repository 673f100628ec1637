"""Penalties and boosts: rules that change scores without forbidding tokens.

The search uses the changed scores, and a beam's score is one; the log-probability of a hypothesis stays
the model's own.
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

    Logits below 0 are multiplied by the penalty, others divided by it; in a beam log-probabilities are.
    """

    changes_scores: ClassVar[bool] = True
    penalty: float

    @property
    def raises(self) -> bool:
        return self.penalty < 1

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        ids = generated.ids.to(log_probs.device)
        found = log_probs.gather(1, ids)
        shift = torch.zeros((), device=found.device) if generated.shift is None else generated.shift
        logits = found + shift
        changed = torch.where(logits < 0, logits * self.penalty, logits / self.penalty) - shift
        log_probs.scatter_(1, ids, torch.where(found.isfinite(), changed, found))


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
    own = torch.arange(generated.length)[None] >= generated.prefix_lengths[:, None]
    counts = torch.zeros_like(log_probs)
    return counts.scatter_add_(1, ids, own.to(log_probs))


@dataclass(frozen=True, kw_only=True)
class PhraseBoost:
    """Add `strength` to the next token of each of these phrases whose beginning the text ends with.

    So the first token of each phrase is always more likely; a `strength` below 0 makes it less likely.
    """

    changes_scores: ClassVar[bool] = True
    phrases: tuple[tuple[int, ...], ...]
    strength: float

    @property
    def raises(self) -> bool:
        return self.strength > 0

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
        due = torch.zeros_like(log_probs)
        for phrase in self.phrases:
            for place, token in enumerate(phrase):
                ending = ends_in(generated.ids, phrase[:place]).to(log_probs)
                due[:, token] = torch.maximum(due[:, token], ending)  # once, even if several phrases have it
        log_probs += self.strength * due
