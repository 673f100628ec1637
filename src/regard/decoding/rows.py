"""Unfinished hypotheses and the rows of the stepper in which they sit.

Float32 products change in their last bits with the number of rows, so that number is kept a multiple of
what the stepper says; what the spare rows compute is not looked at. A hypothesis stays in its parent's row
if it can, a second child takes a free row, one of the same sentence if there is any: so little of the cache
has to move.
"""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from regard.decoding.step import LogitStepper, RankingStepper, Stepper, multiple_of

SPARE = -1


def round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


class HypothesisRows:
    """The hypotheses of a batch. All have said equally many tokens; a row may be free."""

    def __init__(
        self, stepper: Stepper, sentences: int, said: Int64[np.ndarray, "sentences length"] | None = None
    ) -> None:
        """`said`: what the hypotheses begin with; nothing is known of its probability, which counts as 1."""
        self.stepper, self._multiple = stepper, multiple_of(stepper)
        self._ranking = (
            stepper if isinstance(stepper, RankingStepper) and stepper.has_top_candidates else None
        )
        self.sentence: Int64[np.ndarray, " rows"] = np.arange(sentences)  # SPARE where a row is free
        self.rank: Int64[np.ndarray, " rows"] = np.zeros(sentences, np.int64)  # among its sentence's
        self.log_prob: Float64[np.ndarray, " rows"] = np.zeros(sentences)  # as the search ranks
        self.ids: Int64[np.ndarray, "rows length"] = (
            np.zeros((sentences, 0), np.int64) if said is None else said
        )
        self.token_log_probs: Float64[np.ndarray, "rows length"] = np.zeros(self.ids.shape)  # the model's
        self._source = self.sentence  # what a row has read, also when it is free
        self.select(np.arange(sentences), self.rank)

    @property
    def length(self) -> int:
        """Tokens said so far."""
        return self.ids.shape[1]

    def live(self) -> Int64[np.ndarray, " live"]:
        """The rows that hold a hypothesis."""
        return np.flatnonzero(self.sentence != SPARE)

    def step(self, bos_id: int) -> Float[Tensor, "rows vocab"]:
        """Log-probabilities of the token after the last one."""
        return self.stepper.step(self._last(bos_id))

    def logits(self, bos_id: int) -> Float[Tensor, "rows vocab"]:
        """The same as `step`, but for a number that is the row's own, where the model tells it."""
        if isinstance(self.stepper, LogitStepper):
            return self.stepper.logits(self._last(bos_id))
        return self.step(bos_id)

    def likeliest(
        self, bos_id: int, size: int, asked: Int64[np.ndarray, " rows"]
    ) -> (
        tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"], Float64[np.ndarray, " rows"]]
        | None
    ):
        """The `size` likeliest tokens of `step` and their ids, and the log-probability of `asked`.

        None where the stepper has no short way to them; then it has read nothing.
        """
        if self._ranking is None:
            return None
        values, ids, told = self._ranking.top_candidates(self._last(bos_id), size, torch.from_numpy(asked))
        return values.double().numpy(), ids.numpy(), told.double().numpy()

    def _last(self, bos_id: int) -> Int64[Tensor, " rows"]:
        last = self.ids[:, -1] if self.length else np.full(len(self.sentence), bos_id)
        return torch.from_numpy(np.ascontiguousarray(last))

    def select(
        self, parents: Int64[np.ndarray, " new"], rank: Int64[np.ndarray, " new"]
    ) -> Int64[np.ndarray, " new"]:
        """Hypothesis i becomes a copy of what sits in row `parents[i]`; the row that it gets."""
        seats, origin = self._seat(parents)
        sentence = self.sentence[parents]
        if len(origin) != len(self._source) or (origin != np.arange(len(origin))).any():
            self._move(origin)
        self.sentence = np.full(len(origin), SPARE)
        self.sentence[seats] = sentence
        self.rank = np.zeros(len(origin), np.int64)
        self.rank[seats] = rank
        return seats

    def _move(self, origin: Int64[np.ndarray, " rows"]) -> None:
        """Row i takes what row `origin[i]` held."""
        self._source = self._source[origin]
        self.log_prob = self.log_prob[origin]
        self.ids = self.ids[origin]
        self.token_log_probs = self.token_log_probs[origin]
        if len(origin):
            self.stepper.select(torch.from_numpy(origin))

    def append(
        self,
        seats: Int64[np.ndarray, " new"],
        ids: Int64[np.ndarray, " new"],
        log_probs: Float64[np.ndarray, " new"],
        weighed: Float64[np.ndarray, " new"] | None = None,
    ) -> None:
        """Say a token in these rows; `weighed`: what it counts for, if that is not its log-probability."""
        said = np.zeros((len(self.sentence), 1), np.int64)
        said[seats, 0] = ids
        gained = np.zeros((len(self.sentence), 1))
        gained[seats, 0] = log_probs
        self.ids = np.concatenate((self.ids, said), axis=1)
        self.token_log_probs = np.concatenate((self.token_log_probs, gained), axis=1)
        if weighed is not None:
            gained = np.zeros_like(gained)
            gained[seats, 0] = weighed
        self.log_prob = self.log_prob + gained[:, 0]

    def _seat(
        self, parents: Int64[np.ndarray, " new"]
    ) -> tuple[Int64[np.ndarray, " new"], Int64[np.ndarray, " rows"]]:
        """A row for each hypothesis, and for each row the one whose contents it takes."""
        rows, needed = len(self.sentence), round_up(len(parents), self._multiple)
        if not len(parents):
            return parents, parents
        if (
            needed > rows or needed <= rows * 7 // 8 or rows % self._multiple
        ):  # a new block, or less to compute
            spare = np.full(needed - len(parents), parents[0])
            return np.arange(len(parents)), np.concatenate((parents, spare))
        if (parents[1:] > parents[:-1]).all():  # each has one heir, which stays
            return parents, np.arange(rows)
        first = np.full(rows, SPARE)
        first[parents[::-1]] = np.arange(len(parents))[::-1]  # of several heirs the first, written last
        free = np.flatnonzero(first == SPARE)
        heirs = first[first != SPARE]
        seats = np.full(len(parents), SPARE)
        seats[heirs] = parents[heirs]
        others = np.flatnonzero(seats == SPARE)
        seats[others] = _nearest(self._source[parents[others]], free, self._source[free])
        origin = np.arange(rows)
        origin[seats] = parents
        return seats, origin


def _nearest(
    wanted: Int64[np.ndarray, " new"], free: Int64[np.ndarray, " free"], source: Int64[np.ndarray, " free"]
) -> Int64[np.ndarray, " new"]:
    """A free row for each: one that has read the wanted source if there is one, else any."""
    seats = np.full(len(wanted), SPARE)
    _, ours, theirs = np.intersect1d(
        _numbered(wanted), _numbered(source), assume_unique=True, return_indices=True
    )
    seats[ours] = free[theirs]
    rest = np.flatnonzero(seats == SPARE)
    seats[rest] = np.delete(free, theirs)[: len(rest)]
    return seats


def _numbered(values: Int64[np.ndarray, " count"]) -> Int64[np.ndarray, " count"]:
    """Distinct numbers: a value and how often it has come before."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    before = np.empty_like(values)
    before[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return values * 2**32 + before
