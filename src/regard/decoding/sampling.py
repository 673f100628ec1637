"""Sampling: filters change a distribution, and noise of the request samples from it.

The noise of a step is a function of the seed, the request, the number of the sample and the step alone, so
that a sample does not depend on the batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, UInt64
from torch import Tensor

from regard.decoding.base_search import Ranked
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.hypothesis import Request
from regard.decoding.rows import HypothesisRows
from regard.decoding.search_checks import refuse_other_count
from regard.errors import ConfigError
from regard.recipe import check_types

Filter = Callable[[Float[Tensor, "rows vocab"]], Float[Tensor, "rows vocab"]]  # logits -> logits


@dataclass(frozen=True, kw_only=True)
class Temperature:
    """Divide the logits: below 1 the probable tokens become more probable, above 1 less."""

    temperature: float

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        if not self.temperature > 0:
            raise ConfigError(f"temperature is {self.temperature}, but must be above 0", "1 changes nothing")

    def __call__(self, logits: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        return logits / self.temperature


@dataclass(frozen=True, kw_only=True)
class TopK:
    """Keep the `k` most probable tokens (Fan et al. 2018, section 5.4); of equal ones the lower ids."""

    k: int

    def __post_init__(self) -> None:
        refuse_other_count("top_k", self.k)

    def __call__(self, logits: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        least = logits.topk(min(self.k, logits.size(1)), dim=1).values[:, -1:]
        above, equal = logits > least, logits == least
        room = self.k - above.sum(dim=1, keepdim=True)
        return logits.masked_fill(~(above | (equal & (equal.cumsum(dim=1) <= room))), -torch.inf)


@dataclass(frozen=True, kw_only=True)
class TopP:
    """Keep the fewest tokens whose probabilities add up to `p` (Holtzman et al. 2020, section 3.1)."""

    p: float

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        if not 0 < self.p <= 1:
            raise ConfigError(f"top_p is {self.p}, but must be above 0 and at most 1", "1 keeps all tokens")

    def __call__(self, logits: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        ordered, ids = logits.sort(dim=1, descending=True, stable=True)
        probabilities = ordered.softmax(dim=1)
        before = probabilities.cumsum(dim=1) - probabilities
        beyond = before >= self.p
        return logits.masked_fill(beyond.scatter(1, ids, beyond), -torch.inf)


@dataclass(frozen=True, kw_only=True)
class MinP:
    """Keep the tokens at least `p` times as probable as the best token (Nguyen et al. 2024, section 3)."""

    p: float

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        if not 0 <= self.p <= 1:
            raise ConfigError(f"min_p is {self.p}, but must be from 0 to 1", "0 keeps all tokens")

    def __call__(self, logits: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        probabilities = logits.softmax(dim=1)
        highest = probabilities.amax(dim=1, keepdim=True)
        return logits.masked_fill(probabilities < self.p * highest, -torch.inf)


@dataclass(frozen=True, kw_only=True)
class Typical:
    """Keep the fewest tokens whose probabilities add up to `p`, those of most typical information first.

    Meister et al. 2023, section 4: the nearer -log p is to its mean, the entropy, the more typical; of
    equally typical ones those with lower ids.
    """

    p: float

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        if not 0 < self.p <= 1:
            raise ConfigError(
                f"typical_p is {self.p}, but must be above 0 and at most 1", "1 keeps all tokens"
            )

    def __call__(self, logits: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        log_probs = logits.log_softmax(dim=1)
        probabilities = log_probs.exp()
        entropy = -(probabilities * log_probs).nansum(dim=1, keepdim=True)  # 0 * -inf counts as 0
        ids = (-log_probs - entropy).abs().sort(dim=1, stable=True).indices
        ordered = probabilities.gather(1, ids)
        beyond = ordered.cumsum(dim=1) - ordered >= self.p
        return logits.masked_fill(beyond.scatter(1, ids, beyond), -torch.inf)


@dataclass(frozen=True, kw_only=True)
class Sampling(DecodingLoop):
    """`n_best` independent samples of each request, in the order of their numbers."""

    filters: tuple[Filter, ...] = ()
    seed: int = 0

    def ranking(
        self, requests: Sequence[Request]
    ) -> Callable[[HypothesisRows], Callable[[Float[Tensor, "rows vocab"]], Ranked]]:
        indices = np.array([request.noise for request in requests])

        def sampled(rows: HypothesisRows) -> Callable[[Float[Tensor, "rows vocab"]], Ranked]:
            noise = uniform_noise(self.seed, indices[rows.sentence], rows.rank, rows.lengths)
            return lambda log_probs: self._sample(log_probs, noise)

        return sampled

    def _sample(self, log_probs: Float[Tensor, "rows vocab"], noise: Float64[np.ndarray, " rows"]) -> Ranked:
        """The token at which the sum of the probabilities exceeds the noise; and its log-probability."""
        logits = log_probs
        for each in self.filters:
            logits = each(logits)
        up_to = logits.softmax(dim=1).double().cumsum(dim=1)
        heights = torch.from_numpy(noise).to(up_to.device)[:, None] * up_to[:, -1:]
        ids = torch.searchsorted(up_to, heights, right=True).clamp(max=log_probs.size(1) - 1)
        values = log_probs.gather(1, ids)
        return values.cpu().numpy().astype(np.float64), ids.cpu().numpy()


def uniform_noise(
    seed: int,
    index: Int64[np.ndarray, " rows"],
    sample: Int64[np.ndarray, " rows"],
    step: int | Int64[np.ndarray, " rows"],
) -> Float64[np.ndarray, " rows"]:
    """A number in [0, 1) for each row; multiples of 2^-52, so that with a float it stays below it."""
    state = np.full(len(index), seed % 2**64, np.uint64)
    for part in (index, sample, np.broadcast_to(step, len(index))):
        state = _mix(state) ^ part.astype(np.uint64)
    return (_mix(state) >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _mix(state: UInt64[np.ndarray, " rows"]) -> UInt64[np.ndarray, " rows"]:
    """SplitMix64 (Steele et al. 2014, figure 16)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
