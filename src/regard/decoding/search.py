"""Greedy and beam search: n-best lists, length penalties, and exact stopping.

A beam search continues every hypothesis that could still enter the n best, and drops it as soon as it
cannot. Log-probabilities only fall, so the best possible score of a hypothesis is its present
log-probability over the penalty of the greatest length. All candidates below a dropped one cannot win
either.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from regard.decoding.base_search import Ranking, RequestConstraints, Search, SelectedTokens, drop
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.hypothesis import Hypothesis, Request, best_first
from regard.decoding.ranking import TopCandidates
from regard.decoding.rows import HypothesisRows
from regard.decoding.search_checks import refuse_other_count
from regard.decoding.step import Stepper
from regard.decoding.steps_at_once import MOST_ROWS, MOST_STEPS, EndedHypothesis, SentenceBeam, run_steps
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GreedySearch(DecodingLoop):
    """Takes the most probable token at each step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > 1:
            raise ConfigError(f"greedy search finds one hypothesis, not n_best = {self.n_best}", "use a beam")

    def ranking(self, requests: Sequence[Request]) -> Callable[[HypothesisRows], Ranking]:
        return lambda rows: TopCandidates(1)

    def run_steps(self, rows: HypothesisRows, constraints: RequestConstraints) -> list[EndedHypothesis]:
        return run_steps(self, rows, constraints, candidates=1) if type(self) is GreedySearch else []


class FinishedHypotheses:
    """The n best finished hypotheses of each request; `bar` is what a score must exceed to be among them."""

    def __init__(self, requests: int, n_best: int) -> None:
        self.n_best = n_best
        self.found: list[list[Hypothesis]] = [[] for _ in range(requests)]
        self.bar = np.full(requests, -np.inf)
        self.ended = np.zeros(requests, np.int64)  # how many have finished

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        known = self.found[sentence]
        same = [each for each in known if each.ids == hypothesis.ids]  # finished in another way
        best = best_first(
            [*(each for each in known if each not in same), *best_first([*same, hypothesis], 1)], self.n_best
        )
        self.found[sentence] = best
        self.ended[sentence] += 1
        self.bar[sentence] = best[-1].score if len(best) == self.n_best else -np.inf

    def join(self, requests: int) -> None:
        """Append `requests` requests without finished hypotheses."""
        self.found += [[] for _ in range(requests)]
        self.bar = np.concatenate((self.bar, np.full(requests, -np.inf)))
        self.ended = np.concatenate((self.ended, np.zeros(requests, np.int64)))

    def select(self, kept: Int64[np.ndarray, " kept"]) -> None:
        """Request i becomes what request `kept[i]` was."""
        self.found = [self.found[place] for place in kept.tolist()]
        self.bar, self.ended = self.bar[kept], self.ended[kept]


class Candidates(NamedTuple):
    """The best continuations of each sentence, best first."""

    parents: Int64[np.ndarray, "sentences candidates"]  # their rows
    ids: Int64[np.ndarray, "sentences candidates"]
    values: Float64[np.ndarray, "sentences candidates"]
    own: Float64[np.ndarray, "sentences candidates"]
    total: Float64[np.ndarray, "sentences candidates"]  # with the score of the parent


@dataclass(frozen=True, kw_only=True)
class BeamSearch(Search):
    """Beam search: keeps the `size` most probable prefixes at each step (Sutskever et al. 2014, section 3.2).

    A candidate that ends finishes its hypothesis, and the next candidate takes its place in the beam. With
    `early_stopping` the search stops when `size` hypotheses have finished; with `heuristic_stopping` when so
    many have finished and the best of the others, at its present length, scores no better than the worst of
    them (Transformers' `early_stopping = False`). With a length penalty that favours long outputs, either
    may miss a longer hypothesis with a better score.

        regard.decoding.decode(module, src_ids, src_lengths, BeamSearch(size=4, n_best=2))

    The other fields are those of every `Search`. `n_best` hypotheses are found for each source, best first.
    `bos_id` begins each target and `eos_id` ends it; `ends` are other ids that do. `limits` has the
    greatest length in tokens. `length_penalty` divides a log-probability (nats) to give the score;
    `Power(alpha=0.0)`, the default, divides by 1. `rules` change the scores of next tokens.

    Raises:
        ConfigError: `size` or `n_best` is below 1, `n_best` is above `size`, an id is negative, or a rule is
            no `Rule`.
    """

    size: int = 5
    early_stopping: bool = False
    heuristic_stopping: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_other_count("the size of a beam", self.size, "size = 5")
        if self.n_best > self.size:
            raise ConfigError(
                f"n_best ({self.n_best}) is more than the size of the beam ({self.size})",
                f"size = {self.n_best} would do",
            )

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        finished = self.none_finished(len(requests))
        constraints = RequestConstraints(requests, self.limits, self.eos_id)
        greatest = self.greatest(constraints)
        rows = self.rows(stepper, requests)
        while len(rows.live()):
            self.run_steps(rows, constraints, greatest, finished)
            self.step(rows, constraints, greatest, finished)
        return [found[: self.n_best] for found in finished.found]

    def run_steps(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> None:
        """Do several steps at once, if that is possible."""
        sentence = int(rows.sentence[rows.live()[0]])
        bar, ends = float(finished.bar[sentence]), int(finished.ended[sentence])
        if type(self) is not BeamSearch or (self.heuristic_stopping and np.isfinite(bar)):
            return
        decides_alone = self.n_best == 1 and not self.heuristic_stopping  # what follows from an end
        most = self.size - 1 - ends if self.early_stopping else MOST_ROWS * MOST_STEPS
        beam = SentenceBeam(
            size=self.size,
            most_ends=most if decides_alone else 0,
            drops=not self.early_stopping,
            greatest=float(greatest[sentence]),
            bar=-np.inf if self.early_stopping else bar,
        )
        for each in run_steps(self, rows, constraints, candidates=self.tokens_of_row, beam=beam):
            finished.add(sentence, each.hypothesis)

    @property
    def tokens_of_row(self) -> int:
        """The number of candidate tokens of a row: enough that `size` of them do not end a hypothesis."""
        return self.size + 1 + len(self.ends)

    def none_finished(self, requests: int) -> FinishedHypotheses:
        """An empty collection for the finished hypotheses of `requests` requests."""
        return FinishedHypotheses(requests, self.size if self.heuristic_stopping else self.n_best)

    def step(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> None:
        """Continue the beam of each sentence by one token."""
        chosen = self.next_tokens(rows, constraints, TopCandidates(self.tokens_of_row))
        found = self.candidates(rows, len(greatest), chosen)
        kept = self.continued(rows, constraints, found, greatest, finished)
        rank = kept.cumsum(axis=1) - 1
        slots = rows.select(found.parents[kept], rank[kept])
        scores = found.values[kept] if self.changes_scores else None
        rows.append(slots, found.ids[kept], found.own[kept], scores)
        self.end_stopped(rows, constraints, finished)

    def continued(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        found: Candidates,
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        """Add the hypotheses that end. True for each candidate that the search continues."""
        kept = self.finish(rows, constraints, found, finished)
        if self.heuristic_stopping:
            best = np.where(kept, found.total, -np.inf).max(axis=1, initial=-np.inf)
            lengths = rows.lengths_by_sentence(len(best)) + 1 - constraints.uncounted
            now = [self.length_penalty(max(1, length)) for length in lengths.tolist()]
            return kept & (best / np.array(now) > finished.bar)[:, None]
        return kept & self.could_win(found.total, greatest, finished)

    def finish(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        found: Candidates,
        finished: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        """Add the hypotheses that end. True for each other candidate that the beam has room for."""
        possible = np.isfinite(found.total)
        ends = self.is_end(found.ids) & ~constraints.in_prompt(rows)[found.parents]
        for sentence, place in np.argwhere((possible & ends)[:, : self.size]):
            parent, value, own = (part[sentence, place] for part in (found.parents, found.values, found.own))
            ended = self.hypothesis(rows, constraints, int(parent), float(value), float(own))
            finished.add(int(sentence), ended)
        unfinished = possible & ~ends
        return unfinished & (unfinished.cumsum(axis=1) <= self.size)

    def greatest(self, constraints: RequestConstraints) -> Float64[np.ndarray, " sentences"]:
        """The greatest divisor of the log-probability of each request's hypotheses."""
        return np.array(
            [self.length_penalty(most + 1) for most in (constraints.longest - constraints.uncounted).tolist()]
        )

    def could_win(
        self,
        total: Float64[np.ndarray, "sentences candidates"],
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        """True for each candidate that could still be among the n best."""
        if self.early_stopping:
            return np.broadcast_to((finished.ended < self.size)[:, None], total.shape)
        if any(rule.raises for rule in self.rules):  # then scores may rise
            return np.ones(total.shape, bool)
        return total / greatest[:, None] > finished.bar[:, None]

    def end_stopped(
        self, rows: HypothesisRows, constraints: RequestConstraints, finished: FinishedHypotheses
    ) -> None:
        """Finish the hypotheses that have generated a stop text."""
        stopped = self.at_a_stop(rows, constraints)
        for row in stopped.tolist():
            finished.add(int(rows.sentence[row]), self.stopped(rows, constraints, row))
        drop(rows, stopped)

    def candidates(
        self,
        rows: HypothesisRows,
        sentences: int,
        chosen: SelectedTokens,
        *,
        live: Int64[np.ndarray, " live"] | None = None,
        penalties: Float64[np.ndarray, "rows size"] | None = None,
    ) -> Candidates:
        """The best continuations of each sentence, of all live rows or of these.

        Of equal ones the lower id comes first, then the better parent. `penalties` change the ranking of a
        candidate, and not its score.
        """
        live = rows.live() if live is None else live
        place = (rows.sentence[live], rows.rank[live] % self.size)
        shape = (sentences, self.size, chosen.ids.shape[1])

        def by_sentence(values: np.ndarray, empty: float = 0) -> np.ndarray:
            everywhere = np.full(shape, empty, values.dtype)
            everywhere[place] = values
            return everywhere.reshape(sentences, self.size * shape[2])

        parents, ids = by_sentence(np.repeat(live[:, None], shape[2], axis=1)), by_sentence(chosen.ids[live])
        values = by_sentence(chosen.values[live])
        total = by_sentence(rows.log_prob[live, None] + chosen.values[live], -np.inf)
        own = values if chosen.own is chosen.values else by_sentence(chosen.own[live])
        ranks = total if penalties is None else total - by_sentence(penalties[live])
        order = np.lexsort((ids, -ranks))[:, : self.size * (2 + len(self.ends))]
        sentence = np.arange(sentences)[:, None]  # `take_along_axis` would make it for each part
        return Candidates(*(part[sentence, order] for part in (parents, ids, values, own, total)))
