"""What a hypothesis had better not say, or say rather: rules that weigh and do not forbid.

What is searched for, or drawn, is the weighed; what is told of a hypothesis is the model's own
log-probability. (A beam's score is the weighed.)
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.rules import GeneratedTokens, ends_in


@dataclass(frozen=True, kw_only=True)
class RepetitionPenalty:
    """What the text has, its prompt included, is less likely (Keskar et al. 2019, equation 2).

    Logits below 0 are multiplied by the penalty, others divided by it. A beam has log-probabilities instead.
    """

    weighs: ClassVar[bool] = True
    penalty: float

    @property
    def raises(self) -> bool:
        return self.penalty < 1

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        ids = said.ids.to(log_probs.device)
        found = log_probs.gather(1, ids)
        shift = torch.zeros((), device=found.device) if said.shift is None else said.shift
        logits = found + shift
        weighed = torch.where(logits < 0, logits * self.penalty, logits / self.penalty) - shift
        log_probs.scatter_(1, ids, torch.where(found.isfinite(), weighed, found))


@dataclass(frozen=True, kw_only=True)
class PresencePenalty:
    """`penalty` less for each token that was said; what was given does not count."""

    weighs: ClassVar[bool] = True
    penalty: float

    @property
    def raises(self) -> bool:
        return self.penalty < 0

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        log_probs -= self.penalty * (_counts(log_probs, said) > 0)


@dataclass(frozen=True, kw_only=True)
class FrequencyPenalty:
    """`penalty` less each time that a token was said; what was given does not count."""

    weighs: ClassVar[bool] = True
    penalty: float

    @property
    def raises(self) -> bool:
        return self.penalty < 0

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        log_probs -= self.penalty * _counts(log_probs, said)


def _counts(log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> Float[Tensor, "rows vocab"]:
    """How often each row has said each token, after what it was given."""
    ids: Int64[Tensor, "rows length"] = said.ids.to(log_probs.device)
    ours = torch.arange(said.length)[None] >= said.given[:, None]
    counts = torch.zeros_like(log_probs)
    return counts.scatter_add_(1, ids, ours.to(log_probs))


@dataclass(frozen=True, kw_only=True)
class PhraseBoost:
    """`strength` more for each next token of these sequences, where what was said ends in its beginning.

    So the first token of each is always likelier; a `strength` below 0 makes them less likely.
    """

    weighs: ClassVar[bool] = True
    phrases: tuple[tuple[int, ...], ...]
    strength: float

    @property
    def raises(self) -> bool:
        return self.strength > 0

    def __call__(self, log_probs: Float[Tensor, "rows vocab"], said: GeneratedTokens) -> None:
        due = torch.zeros_like(log_probs)
        for phrase in self.phrases:
            for place, token in enumerate(phrase):
                ending = ends_in(said.ids, phrase[:place]).to(log_probs)
                due[:, token] = torch.maximum(due[:, token], ending)  # once, however many phrases ask for it
        log_probs += self.strength * due
