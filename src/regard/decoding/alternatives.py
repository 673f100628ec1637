"""The most probable tokens at each step of a search, beside the tokens that it takes."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from regard.decoding.ranking import top_candidates

RankedTokens = tuple[tuple[int, float], ...]  # ids and log-probabilities (nats), best first


class RecordedStep(NamedTuple):
    """The most probable tokens of a row at a step, and the step before it."""

    before: "RecordedStep | None"
    log_probs: Float64[np.ndarray, " count"]
    ids: Int64[np.ndarray, " count"]

    @property
    def tokens(self) -> RankedTokens:
        possible = np.isfinite(self.log_probs)  # a small vocabulary has fewer than `count`
        return tuple(zip(self.ids[possible].tolist(), self.log_probs[possible].tolist(), strict=True))


class Alternatives:
    """The `count` most probable next tokens at each step of each row, before any rule changes them.

    Copies of a row share its steps.
    """

    def __init__(self, count: int, rows: int) -> None:
        self.count = count
        self._steps: list[RecordedStep | None] = [None] * rows
        self._next: tuple[Float64[np.ndarray, "rows count"], Int64[np.ndarray, "rows count"]] | None = None

    def rank(self, log_probs: Float[Tensor, "rows vocab"]) -> None:
        """Record the best of the next tokens."""
        self.record(*top_candidates(log_probs, self.count))

    def record(
        self, log_probs: Float64[np.ndarray, "rows size"], ids: Int64[np.ndarray, "rows size"]
    ) -> None:
        """Record the next tokens, of which these are the best."""
        self._next = log_probs[:, : self.count].copy(), ids[:, : self.count].copy()

    def append(self) -> None:
        """End the step: each row has a token more."""
        assert self._next is not None
        log_probs, ids = self._next
        self._steps = [RecordedStep(*each) for each in zip(self._steps, log_probs, ids, strict=True)]
        self._next = None

    def join(self, rows: int) -> None:
        """Append new rows, which have no steps yet."""
        self._steps += [None] * rows

    def move(self, origin: Int64[np.ndarray, " rows"]) -> None:
        """Make row i a copy of row `origin[i]`."""
        self._steps = [self._steps[row] for row in origin.tolist()]
        if self._next is not None:
            self._next = self._next[0][origin], self._next[1][origin]

    def of_row(self, row: int, length: int) -> list[RankedTokens]:
        """Those of each of the `length` tokens of a row; none of tokens that the search began with.

        With a `length` of one more those of the next token, if they are recorded.
        """
        found: list[RankedTokens] = []
        step = self._steps[row]
        if self._next is not None:
            step = RecordedStep(step, self._next[0][row], self._next[1][row])
        while step is not None:
            found.append(step.tokens)
            step = step.before
        begun: list[RankedTokens] = [()] * (length - len(found))
        return begun + found[::-1]
