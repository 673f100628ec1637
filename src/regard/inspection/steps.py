"""How sure a model was of each token: log-probability, entropy, rank, and what else it thought of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.ranking import top_candidates


@dataclass(frozen=True, slots=True)
class TokenCandidate:
    """A token that might have been written."""

    id: int
    log_prob: float  # nats


@dataclass(frozen=True, slots=True)
class Step:
    """One position: the token that was written there, and those the model held likeliest, best first."""

    id: int
    log_prob: float  # nats
    entropy: float  # nats; 0 where one token is certain, the logarithm of the vocabulary's size at most
    rank: int  # of the token written: 1 is the likeliest; of equal ones that with the lower id comes first
    candidates: tuple[TokenCandidate, ...]

    @property
    def surprisal(self) -> float:
        """How unexpected the token was, in bits (Shannon 1948): each bit halves its probability."""
        return -self.log_prob / math.log(2)


def steps(logits: Float[Tensor, "len vocab"], written: Sequence[int], *, candidates: int = 20) -> list[Step]:
    """What the logits of each position say of the token written there.

    Raises:
        ValueError: there are not as many tokens as positions.
    """
    if len(written) != len(logits):
        raise ValueError(f"{len(written)} tokens were written at {len(logits)} positions")
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
    """How undecided each position is, in nats: -sum p log p. What is ruled out (-inf) adds nothing."""
    return torch.special.entr(logits.softmax(dim=-1)).sum(dim=-1)


def ranks(logits: Float[Tensor, "len vocab"], ids: Int64[Tensor, " len"]) -> Int64[Tensor, " len"]:
    """The place of each of these tokens among all, 1 the likeliest; of equals the lower id comes first."""
    own = logits.gather(1, ids[:, None])
    lower = torch.arange(logits.size(1), device=logits.device) < ids[:, None]
    return 1 + (logits > own).sum(dim=1) + ((logits == own) & lower).sum(dim=1)


def most_likely_tokens(log_probs: Float[Tensor, "len vocab"], count: int) -> list[tuple[TokenCandidate, ...]]:
    """The `count` likeliest tokens of each position, the best first; all where there are fewer."""
    values, ids = top_candidates(log_probs, count)
    return [tuple(map(TokenCandidate, *row)) for row in zip(ids.tolist(), values.tolist(), strict=True)]
