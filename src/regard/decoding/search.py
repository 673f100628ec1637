"""Greedy and beam search: n-best lists, length penalties, and stopping that is right.

A beam search waits for every hypothesis that could still enter the n best, and drops each as soon
as it cannot. Log-probabilities only fall, so the best score that one can attain is its present
log-probability by the penalty of the greatest length. What is dropped takes no place from others
that matter: all candidates below it in the beam cannot win either.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, LengthPenalty, Power, Request, best_first
from regard.decoding.ranking import shortlist
from regard.decoding.rows import SPARE, Rows
from regard.decoding.rules import LengthLimits, Rule
from regard.decoding.step import Stepper
from regard.errors import ConfigError, RunError

Ranked = tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"]]
FREE = -1  # where no token is forced


class Course:
    """What the requests of a batch prescribe: how they begin, and where they end at the latest."""

    def __init__(self, requests: Sequence[Request], limits: LengthLimits, eos_id: int) -> None:
        self.eos_id = eos_id
        self.prefix = np.full((len(requests), max(len(request.prefix) for request in requests)), FREE)
        for row, request in enumerate(requests):
            self.prefix[row, : len(request.prefix)] = request.prefix
        self.longest: Int64[np.ndarray, " sentences"] = np.array(
            [max(min(limits.longest(each.src_len), each.most), len(each.prefix)) for each in requests]
        )

    def forced(self, rows: Rows) -> Int64[np.ndarray, " rows"]:
        """The token that each row has to say next; FREE where it may choose."""
        at = rows.length
        tokens = np.where(at >= self.longest, self.eos_id, FREE)
        if at < self.prefix.shape[1]:
            tokens = np.where(self.prefix[:, at] == FREE, tokens, self.prefix[:, at])
        return np.where(rows.sentence == SPARE, FREE, tokens[rows.sentence])


@dataclass(frozen=True, kw_only=True)
class Search(ABC):
    """What every search is given."""

    limits: LengthLimits = field(default_factory=LengthLimits)
    rules: tuple[Rule, ...] = ()
    length_penalty: LengthPenalty = field(default_factory=lambda: Power(alpha=0.0))
    n_best: int = 1
    bos_id: int = 2
    eos_id: int = 3

    def __post_init__(self) -> None:
        if self.n_best < 1:
            raise ConfigError(f"n_best is {self.n_best}, but must be at least 1")

    @abstractmethod
    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """The best hypotheses of each request; the stepper has read their sources, a row each.

        A list is shorter than n_best where fewer hypotheses are possible.
        """

    def rows(self, stepper: Stepper, requests: Sequence[Request]) -> Rows:
        """A row for each request, where its search begins."""
        said = [request.prefix[: request.said] for request in requests]
        return Rows(stepper, len(requests), np.array(said, np.int64).reshape(len(said), -1))

    def hypothesis(self, rows: Rows, row: int, log_prob: float) -> Hypothesis:
        """What sits in a row, ended with this log-probability of the end."""
        total = float(rows.log_prob[row]) + log_prob
        return Hypothesis(
            ids=rows.ids[row].tolist(),
            log_prob=total,
            score=total / self.length_penalty(rows.length + 1),
            token_log_probs=[*rows.token_log_probs[row].tolist(), log_prob],
        )

    def next_tokens(
        self, rows: Rows, course: Course, rank: Callable[[Float[Tensor, "rows vocab"]], Ranked]
    ) -> Ranked:
        """One step: of what may follow in each row, the tokens that `rank` picks, the best first."""
        log_probs = rows.step(self.bos_id)
        forced = course.forced(rows)
        told = np.flatnonzero(forced != FREE)
        held = torch.from_numpy(np.where(forced == FREE, self.eos_id, forced)).to(log_probs.device)
        kept = log_probs.gather(1, held[:, None])[:, 0]
        history = torch.from_numpy(rows.ids)
        for rule in self.rules:
            rule(log_probs, history)
        if len(told):
            where = torch.from_numpy(told).to(log_probs.device)
            log_probs[where] = -torch.inf
            log_probs[where, held[where]] = kept[where]
        values, ids = rank(log_probs)
        live = rows.live()
        if np.isnan(values[live]).any():
            raise RunError(
                "the model answers NaN",
                "its weights are damaged, or its training diverged before they were saved",
            )
        stuck = live[values[live, 0] == -np.inf]  # the rules left nothing but the end
        if len(stuck):
            values[stuck, 0] = kept.cpu().numpy()[stuck]
            ids[stuck, 0] = held.cpu().numpy()[stuck]
        return values, ids


@dataclass(frozen=True, kw_only=True)
class Walk(Search):
    """`n_best` hypotheses of each request, each on its own way, always to the first token of a ranking."""

    @abstractmethod
    def ranking(
        self, requests: Sequence[Request]
    ) -> Callable[[Rows], Callable[[Float[Tensor, "rows vocab"]], Ranked]]:
        """How the next tokens are ranked, step by step."""

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        found: list[dict[int, Hypothesis]] = [{} for _ in requests]
        for _ in self.steps(stepper, requests, found):
            pass
        return [[each[place] for place in sorted(each)] for each in found]

    def steps(
        self, stepper: Stepper, requests: Sequence[Request], found: list[dict[int, Hypothesis]]
    ) -> Iterator[Rows]:
        """Step by step, what is said so far; finished hypotheses go to `found`, by request and sample."""
        course, rank = Course(requests, self.limits, self.eos_id), self.ranking(requests)
        rows = self.rows(stepper, requests)
        rows.select(
            np.repeat(np.arange(len(requests)), self.n_best), np.tile(np.arange(self.n_best), len(requests))
        )
        while len(live := rows.live()):
            values, ids = self.next_tokens(rows, course, rank(rows))
            values, ids = values[live, 0], ids[live, 0]
            possible, ends = np.isfinite(values), ids == self.eos_id
            done = possible & ends
            for row, value in zip(live[done].tolist(), values[done].tolist(), strict=True):
                found[rows.sentence[row]][int(rows.rank[row])] = self.hypothesis(rows, row, value)
            on = possible & ~ends
            seats = rows.select(live[on], rows.rank[live[on]])
            rows.append(seats, ids[on], values[on])
            yield rows


@dataclass(frozen=True, kw_only=True)
class GreedySearch(Walk):
    """The likeliest token at each step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > 1:
            raise ConfigError(f"greedy search finds one hypothesis, not n_best = {self.n_best}", "use a beam")

    def ranking(
        self, requests: Sequence[Request]
    ) -> Callable[[Rows], Callable[[Float[Tensor, "rows vocab"]], Ranked]]:
        return lambda rows: lambda log_probs: shortlist(log_probs, 1)


@dataclass(frozen=True, kw_only=True)
class BeamSearch(Search):
    """The `beam_size` likeliest beginnings at each step (Sutskever et al. 2014, section 3.2).

    An end that is among them finishes its hypothesis, whose place goes to the next candidate, so
    that ends do not starve the beam.
    """

    beam_size: int = 5

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
        found: list[list[Hypothesis]] = [[] for _ in requests]
        course = Course(requests, self.limits, self.eos_id)
        bar = np.full(len(requests), -np.inf)  # what a score must exceed to be among the n best
        greatest = np.array([self.length_penalty(longest + 1) for longest in course.longest.tolist()])
        rows = self.rows(stepper, requests)
        while len(rows.live()):
            ranked = self.next_tokens(
                rows, course, lambda log_probs: shortlist(log_probs, self.beam_size + 1)
            )
            parents, ids, values, total = self._candidates(rows, len(requests), *ranked)
            possible, ends = np.isfinite(total), ids == self.eos_id
            for sentence, place in np.argwhere((possible & ends)[:, : self.beam_size]):
                parent, value = int(parents[sentence, place]), float(values[sentence, place])
                best = best_first([*found[sentence], self.hypothesis(rows, parent, value)], self.n_best)
                found[sentence] = best
                bar[sentence] = best[-1].score if len(best) == self.n_best else -np.inf
            on = possible & ~ends
            on &= on.cumsum(axis=1) <= self.beam_size
            on &= total / greatest[:, None] > bar[:, None]
            rank = on.cumsum(axis=1) - 1
            seats = rows.select(parents[on], rank[on])
            rows.append(seats, ids[on], values[on])
        return found

    def _candidates(
        self,
        rows: Rows,
        sentences: int,
        values: Float64[np.ndarray, "rows size"],
        ids: Int64[np.ndarray, "rows size"],
    ) -> tuple[
        Int64[np.ndarray, "sentences candidates"],
        Int64[np.ndarray, "sentences candidates"],
        Float64[np.ndarray, "sentences candidates"],
        Float64[np.ndarray, "sentences candidates"],
    ]:
        """Each sentence's best continuations: parent rows, tokens, log-probabilities of these, in all.

        Of equal ones that with the lower id comes first, then that of the better parent.
        """
        live = rows.live()
        place = (rows.sentence[live], rows.rank[live])
        shape = (sentences, self.beam_size, values.shape[1])
        all_parents, all_ids = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        all_values, totals = np.zeros(shape), np.full(shape, -np.inf)
        all_parents[place] = live[:, None]
        all_ids[place] = ids[live]
        all_values[place] = values[live]
        totals[place] = rows.log_prob[live, None] + values[live]
        flat = [part.reshape(sentences, -1) for part in (all_parents, all_ids, all_values, totals)]
        order = np.lexsort((flat[1], -flat[3]))[:, : 2 * self.beam_size]
        parents, tokens, gains, totals = (np.take_along_axis(part, order, axis=1) for part in flat)
        return parents, tokens, gains, totals
