"""Sampling: filters change the distribution of the next token, and a random number selects a token.

The random number ("noise") is a function of the seed, the request, the number of the sample and the step
alone, so a sample does not depend on the batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, UInt64
from torch import Tensor

from regard.decoding.base_search import Ranked, Ranking, SelectedTokens, names_tokens
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.hypothesis import Request
from regard.decoding.request_constraints import FREE, RequestConstraints
from regard.decoding.rows import HypothesisRows, as_arrays
from regard.decoding.search_checks import check_sampling, refuse_other_count
from regard.decoding.step import LogitStepper
from regard.decoding.steps_at_once import EndedHypothesis, SampledSteps, run_steps
from regard.errors import ConfigError
from regard.fast.native import kernels
from regard.fast.native.sampling import Filters as KernelFilters
from regard.fast.native.sampling import sample_tokens
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
        return _first_tokens(logits, ids, ordered.softmax(dim=1), self.p)


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
        return _first_tokens(logits, ids, probabilities.gather(1, ids), self.p)


def _first_tokens(
    logits: Float[Tensor, "rows vocab"],
    ids: Int64[Tensor, "rows vocab"],
    probabilities: Float[Tensor, "rows vocab"],
    p: float,
) -> Float[Tensor, "rows vocab"]:
    """Keep the fewest tokens, in the order of `ids`, whose probabilities, in this order, add up to `p`."""
    beyond = probabilities.cumsum(dim=1) - probabilities >= p
    return logits.masked_fill(beyond.scatter(1, ids, beyond), -torch.inf)


# the filters that the kernel has, in the order in which it applies them, and its name of their setting
KERNEL_FIELDS = {Temperature: "temperature", TopK: "top_k", TopP: "top_p", MinP: "min_p"}


@dataclass(frozen=True, eq=False)
class RandomChoice:
    """The ranking of sampling: the token at which the cumulative probability exceeds the noise of the row."""

    filters: tuple[Filter, ...]
    noise: Float64[np.ndarray, " rows"]

    def __call__(self, log_probs: Float[Tensor, "rows vocab"]) -> Ranked:
        """The tokens and their log-probabilities, which no filter changes."""
        logits = log_probs
        for each in self.filters:
            logits = each(logits)
        cumulative = logits.softmax(dim=1).double().cumsum(dim=1)
        thresholds = torch.from_numpy(self.noise).to(cumulative.device)[:, None] * cumulative[:, -1:]
        ids = torch.searchsorted(cumulative, thresholds, right=True).clamp(max=log_probs.size(1) - 1)
        values = log_probs.gather(1, ids)
        return values.cpu().numpy().astype(np.float64), ids.cpu().numpy()


@dataclass(frozen=True, kw_only=True)
class Sampling(DecodingLoop):
    """`n_best` independent samples of each request, in the order of their numbers."""

    filters: tuple[Filter, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sampling(self)

    def ranking(self, requests: Sequence[Request]) -> Callable[[HypothesisRows], RandomChoice]:
        indices = np.array([request.noise for request in requests])
        return lambda rows: RandomChoice(self.filters, self._noise(rows, indices, rows.lengths))

    def _noise(
        self,
        rows: HypothesisRows,
        indices: Int64[np.ndarray, " sentences"],
        step: Int64[np.ndarray, "*steps rows"],
    ) -> Float64[np.ndarray, "*steps rows"]:
        return uniform_noise(self.seed, indices[rows.sentence], rows.rank, step)

    def run_steps(self, rows: HypothesisRows, constraints: RequestConstraints) -> list[EndedHypothesis]:
        if type(self) is not Sampling or self.kernel_filters is None:
            return []

        def noise(steps: int) -> Float64[np.ndarray, "steps rows"]:
            indices = np.array([request.noise for request in constraints.requests])
            return self._noise(rows, indices, rows.lengths + np.arange(steps)[:, None])

        sampled = SampledSteps(filters=self.kernel_filters, noise=noise)
        return run_steps(self, rows, constraints, candidates=1, sampled=sampled)

    def next_tokens(
        self, rows: HypothesisRows, constraints: RequestConstraints, rank: Ranking
    ) -> SelectedTokens:
        if self.kernel_filters is None or not isinstance(rows.stepper, LogitStepper):
            return super().next_tokens(rows, constraints, rank)
        if (found := rows.taken_over()) is not None:
            return self.settled(rows, constraints, constraints.forced_or_free(rows), found)
        return self.of_logits(rows.logits(self.bos_id), rows, constraints, rank)

    def of_logits(
        self,
        logits: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        constraints: RequestConstraints,
        rank: Ranking,
    ) -> SelectedTokens:
        """Samples by the kernel, where it has the filters: fast, with other last bits than PyTorch's.

        Which of the two samples does not depend on the batch.
        """
        filters = self.kernel_filters if logits.device.type == "cpu" else None
        if filters is None or not isinstance(rank, RandomChoice):
            return super().of_logits(logits, rows, constraints, rank)
        banned = [*self.never, *self.banned_of_rows(rows, constraints)]
        forced = constraints.forced_or_free(rows)
        fallback = np.where(forced == FREE, self.eos_id, forced)
        banned_ids = np.empty((len(fallback), len(banned)), np.int64)
        for column, each in enumerate(banned):  # an id for all rows, or one for each
            banned_ids[:, column] = each
        found, log_sums = sample_tokens(
            logits, filters, *map(torch.from_numpy, (rank.noise, banned_ids, fallback))
        )
        if rows.alternatives is not None:
            rows.alternatives.rank(logits - logits.amax(dim=1, keepdim=True) - log_sums[:, None])
        return self.settled(rows, constraints, forced, as_arrays(found))

    @cached_property
    def kernel_filters(self) -> KernelFilters | None:
        """The filters for the kernel; None if it cannot apply them in this order, or a rule."""
        if not kernels.available() or not all(map(names_tokens, self.rules)):
            return None
        kinds = [type(each) for each in self.filters]
        if kinds != [kind for kind in KERNEL_FIELDS if kind in kinds]:
            return None
        found = KernelFilters(temperature=1.0, top_p=1.0, min_p=0.0, top_k=0)
        for each in self.filters:
            [setting] = vars(each).values()
            setattr(found, KERNEL_FIELDS[type(each)], setting)
        return found


def uniform_noise(
    seed: int,
    index: Int64[np.ndarray, " rows"],
    sample: Int64[np.ndarray, " rows"],
    step: int | Int64[np.ndarray, "*steps rows"],
) -> Float64[np.ndarray, "*steps rows"]:
    """A random number in [0, 1) for each step and row: a hash of all arguments.

    A multiple of 2^-52, so its float64 stays below 1.
    """
    state = np.full(len(index), seed % 2**64, np.uint64)
    for part in (index, sample, step):
        state = _mix(state) ^ np.asarray(part).astype(np.uint64)
    return (_mix(state) >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _mix(state: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    """SplitMix64 (Steele et al. 2014, figure 16)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
