"""Prediction steps: log-probability, entropy and rank of each token, and the most likely alternatives."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.ranking import top_candidates
from regard.errors import ConfigError
from regard.inspection.numbers_given import refuse_other_count, refuse_other_ids


@dataclass(frozen=True, slots=True)
class TokenCandidate:
    """A token and its log-probability at one position."""

    id: int
    log_prob: float  # nats


@dataclass(frozen=True, slots=True)
class Step:
    """One position: the token that was written, and the most likely tokens there, best first."""

    id: int
    log_prob: float  # nats
    entropy: float  # nats; from 0 to the logarithm of the vocabulary's size
    rank: int  # of the written token; 1 is the most likely, the lower id comes first in a tie
    candidates: tuple[TokenCandidate, ...]


def prediction_steps(
    logits: Float[Tensor, "len vocab"], written: Sequence[int], *, candidates: int = 20
) -> list[Step]:
    """A step for each position of `logits`, where `written` has the token ids.

    Raises:
        ConfigError: the number of tokens differs from the number of positions, or one has no logit.
    """
    if len(written) != len(logits):
        raise ConfigError(
            f"there are {len(written)} tokens for {len(logits)} positions", "give the tokens of this pass"
        )
    refuse_other_ids("written", written, logits.size(1))
    refuse_other_count("candidates", candidates, "a step needs one or more; the default is 20")
    if not written:
        return []
    logits = logits.detach().float()
    log_probs = logits.log_softmax(dim=-1)
    ids = torch.tensor(list(written), device=logits.device)
    columns = (
        list(written),
        log_probs.gather(1, ids[:, None])[:, 0].tolist(),
        entropies(logits).tolist(),
        ranks(logits, ids).tolist(),
        most_likely_tokens(log_probs, candidates),
    )
    return [Step(*each) for each in zip(*columns, strict=True)]


def entropies(logits: Float[Tensor, "len vocab"]) -> Float[Tensor, " len"]:
    """The entropy of each position in nats: -sum p log p. Logits of -inf add nothing."""
    return torch.special.entr(logits.softmax(dim=-1)).sum(dim=-1)


def ranks(logits: Float[Tensor, "len vocab"], ids: Int64[Tensor, " len"]) -> Int64[Tensor, " len"]:
    """The rank of each of these tokens, 1 for the most likely; in a tie the lower id comes first."""
    own = logits.gather(1, ids[:, None])
    lower = torch.arange(logits.size(1), device=logits.device) < ids[:, None]
    return 1 + (logits > own).sum(dim=1) + ((logits == own) & lower).sum(dim=1)


def most_likely_tokens(log_probs: Float[Tensor, "len vocab"], count: int) -> list[tuple[TokenCandidate, ...]]:
    """The `count` most likely tokens of each position (or all, if fewer), best first."""
    values, ids = top_candidates(log_probs, count)
    return [tuple(map(TokenCandidate, *row)) for row in zip(ids.tolist(), values.tolist(), strict=True)]
