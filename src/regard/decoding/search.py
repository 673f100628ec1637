"""Greedy and beam search: n-best lists, length penalties, and stopping that is right.

A beam search waits for every hypothesis that could still enter the n best, and drops each as soon
as it cannot. Log-probabilities only fall, so the best score that one can attain is its present
log-probability by the penalty of the greatest length. What is dropped takes no place from others
that matter: all candidates below it in the beam cannot win either.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from regard.decoding.base_search import (
    DecodingLoop,
    Ranking,
    RequestConstraints,
    Search,
    SelectedTokens,
    drop,
)
from regard.decoding.hypothesis import Hypothesis, Request, best_first
from regard.decoding.ranking import TopCandidates
from regard.decoding.rows import HypothesisRows
from regard.decoding.step import Stepper
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GreedySearch(DecodingLoop):
    """The likeliest token at each step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > 1:
            raise ConfigError(f"greedy search finds one hypothesis, not n_best = {self.n_best}", "use a beam")

    def ranking(self, requests: Sequence[Request]) -> Callable[[HypothesisRows], Ranking]:
        return lambda rows: TopCandidates(1)


class FinishedHypotheses:
    """The n best finished hypotheses of each request; `bar` is what a score must exceed to be among them."""

    def __init__(self, requests: int, n_best: int) -> None:
        self.n_best = n_best
        self.found: list[list[Hypothesis]] = [[] for _ in range(requests)]
        self.bar = np.full(requests, -np.inf)
        self.ended = np.zeros(requests, np.int64)  # how many there were

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        known = self.found[sentence]
        same = [each for each in known if each.ids == hypothesis.ids]  # it ended in another way
        best = best_first(
            [*(each for each in known if each not in same), *best_first([*same, hypothesis], 1)], self.n_best
        )
        self.found[sentence] = best
        self.ended[sentence] += 1
        self.bar[sentence] = best[-1].score if len(best) == self.n_best else -np.inf


class Candidates(NamedTuple):
    """Each sentence's best continuations, the best first."""

    parents: Int64[np.ndarray, "sentences candidates"]  # their rows
    ids: Int64[np.ndarray, "sentences candidates"]
    values: Float64[np.ndarray, "sentences candidates"]
    own: Float64[np.ndarray, "sentences candidates"]
    total: Float64[np.ndarray, "sentences candidates"]  # with what was said before


@dataclass(frozen=True, kw_only=True)
class BeamSearch(Search):
    """The `beam_size` likeliest beginnings at each step (Sutskever et al. 2014, section 3.2).

    An end that is among them finishes its hypothesis, whose place goes to the next candidate, so
    that ends do not starve the beam. With `early_stopping` a search is over when `beam_size` have ended, with
    `heuristic_stopping` when so many have and the best of the others, at its present length, scores no
    better than the worst of them (transformers' `early_stopping = False`). Where a length penalty favours
    long outputs, a longer one might have won after all.
    """

    beam_size: int = 5
    early_stopping: bool = False
    heuristic_stopping: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beam_size < 1:
            raise ConfigError(f"beam_size is {self.beam_size}, but must be at least 1")
        if self.n_best > self.beam_size:
            raise ConfigError(
                f"n_best ({self.n_best}) is more than beam_size ({self.beam_size})",
                f"beam_size = {self.n_best} would do",
            )

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        podium = FinishedHypotheses(len(requests), self.beam_size if self.heuristic_stopping else self.n_best)
        course = RequestConstraints(requests, self.limits, self.eos_id)
        greatest = self.greatest(course)
        rows = self.rows(stepper, requests)
        while len(rows.live()):
            chosen = self.next_tokens(rows, course, TopCandidates(self.beam_size + 1))
            found = self.candidates(rows, len(requests), chosen)
            on = self.going_on(rows, course, found, greatest, podium)
            rank = on.cumsum(axis=1) - 1
            seats = rows.select(found.parents[on], rank[on])
            rows.append(seats, found.ids[on], found.own[on], found.values[on] if self.weighs else None)
            self.end_stopped(rows, course, podium)
        return [found[: self.n_best] for found in podium.found]

    def going_on(
        self,
        rows: HypothesisRows,
        course: RequestConstraints,
        found: Candidates,
        greatest: Float64[np.ndarray, " sentences"],
        podium: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        """Add the hypotheses that end; which of the other candidates are searched on."""
        on = self.finish(rows, course, found, podium)
        if self.heuristic_stopping:
            best = np.where(on, found.total, -np.inf).max(axis=1, initial=-np.inf)
            lengths = rows.length + 1 - course.uncounted
            now = [self.length_penalty(max(1, length)) for length in lengths.tolist()]
            return on & (best / np.array(now) > podium.bar)[:, None]
        return on & self.could_win(found.total, greatest, podium)

    def finish(
        self, rows: HypothesisRows, course: RequestConstraints, found: Candidates, podium: FinishedHypotheses
    ) -> Bool[np.ndarray, "sentences candidates"]:
        """Add the hypotheses that end; which of the other candidates the beam has room for."""
        possible, ends = np.isfinite(found.total), self.is_end(found.ids)
        for sentence, place in np.argwhere((possible & ends)[:, : self.beam_size]):
            parent, value, own = (part[sentence, place] for part in (found.parents, found.values, found.own))
            ended = self.hypothesis(rows, course, int(parent), float(value), float(own))
            podium.add(int(sentence), ended)
        on = possible & ~ends
        return on & (on.cumsum(axis=1) <= self.beam_size)

    def greatest(self, course: RequestConstraints) -> Float64[np.ndarray, " sentences"]:
        """What the log-probability of each request's hypotheses is divided by at most."""
        return np.array(
            [self.length_penalty(most + 1) for most in (course.longest - course.uncounted).tolist()]
        )

    def could_win(
        self,
        total: Float64[np.ndarray, "sentences candidates"],
        greatest: Float64[np.ndarray, " sentences"],
        podium: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        """Which candidates could still be among the n best."""
        if self.early_stopping:
            return np.broadcast_to((podium.ended < self.beam_size)[:, None], total.shape)
        if any(rule.raises for rule in self.rules):  # then no score is known to fall
            return np.ones(total.shape, bool)
        return total / greatest[:, None] > podium.bar[:, None]

    def end_stopped(
        self, rows: HypothesisRows, course: RequestConstraints, podium: FinishedHypotheses
    ) -> None:
        """Finish the hypotheses that have said what ends them."""
        stopped = self.at_a_stop(rows, course)
        for row in stopped.tolist():
            podium.add(int(rows.sentence[row]), self.stopped(rows, course, row))
        drop(rows, stopped)

    def candidates(
        self,
        rows: HypothesisRows,
        sentences: int,
        chosen: SelectedTokens,
        *,
        live: Int64[np.ndarray, " live"] | None = None,
        fines: Float64[np.ndarray, "rows size"] | None = None,
    ) -> Candidates:
        """Each sentence's best continuations, of all live rows or of these.

        Of equal ones that with the lower id comes first, then that of the better parent. `fines` lower a
        candidate's rank, and not its score.
        """
        live = rows.live() if live is None else live
        place = (rows.sentence[live], rows.rank[live] % self.beam_size)
        shape = (sentences, self.beam_size, chosen.ids.shape[1])

        def spread(values: np.ndarray, empty: float = 0) -> np.ndarray:
            everywhere = np.full(shape, empty, values.dtype)
            everywhere[place] = values
            return everywhere.reshape(sentences, -1)

        parents, ids = spread(np.repeat(live[:, None], shape[2], axis=1)), spread(chosen.ids[live])
        values = spread(chosen.values[live])
        total = spread(rows.log_prob[live, None] + chosen.values[live], -np.inf)
        own = values if chosen.own is chosen.values else spread(chosen.own[live])
        ranks = total if fines is None else total - spread(fines[live])
        order = np.lexsort((ids, -ranks))[:, : 2 * self.beam_size]
        parts = (np.take_along_axis(part, order, axis=1) for part in (parents, ids, values, own, total))
        return Candidates(*parts)
