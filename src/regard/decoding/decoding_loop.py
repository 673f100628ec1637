"""The loop of greedy decoding and sampling: one token for each hypothesis at each step."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int64

from regard.decoding.base_search import Ranking, Search, SearchSteps, after_all_steps, drop
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.request_constraints import RequestConstraints
from regard.decoding.rows import SPARE, HypothesisRows
from regard.decoding.step import Stepper
from regard.decoding.steps_at_once import EndedHypothesis


@dataclass(frozen=True, kw_only=True)
class DecodingLoop(Search):
    """Greedy decoding or sampling: `n_best` independent hypotheses, each by the first token of a ranking."""

    on_logits: ClassVar[bool] = True

    @abstractmethod
    def ranking(self, requests: Sequence[Request]) -> Callable[[HypothesisRows], Ranking]:
        """The ranking of next tokens at each step."""

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        return after_all_steps(self.run(stepper, requests, at_once=True))

    def run(self, stepper: Stepper, requests: Sequence[Request], at_once: bool = False) -> SearchSteps:
        """As a call, step by step; `at_once`: by several steps where that is possible."""
        found: list[dict[int, Hypothesis]] = [{} for _ in requests]
        yield from self.steps(stepper, requests, found, at_once)
        return [in_order(each) for each in found]

    def run_steps(self, rows: HypothesisRows, constraints: RequestConstraints) -> list[EndedHypothesis]:
        """Do what several steps would, if that is possible; the hypotheses that end by them."""
        return []

    def steps(
        self,
        stepper: Stepper,
        requests: Sequence[Request],
        found: list[dict[int, Hypothesis]],
        at_once: bool = False,
    ) -> Iterator[HypothesisRows]:
        """The rows after each step; finished hypotheses go to `found`, by request and sample."""
        constraints, rank = RequestConstraints(requests, self.limits, self.eos_id), self.ranking(requests)
        rows = self.rows(stepper, requests)
        self.sample(rows, np.arange(len(requests)))
        while len(rows.live()):
            if at_once:
                for each in self.run_steps(rows, constraints):
                    found[each.sentence][each.rank] = each.hypothesis
            self.step(rows, constraints, rank(rows), found)
            yield rows
            self.end_stopped(rows, constraints, found)

    def sample(self, rows: HypothesisRows, sentences: Int64[np.ndarray, " new"]) -> None:
        """Repeat the only row of each of these sentences for every sample."""
        if self.n_best > 1:
            repeats = np.where(np.isin(rows.sentence, sentences), self.n_best, rows.sentence != SPARE)
            parents = np.repeat(np.arange(len(repeats)), repeats)
            first = np.searchsorted(parents, parents)
            rows.select(parents, rows.rank[parents] + np.arange(len(parents)) - first)

    def step(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        rank: Ranking,
        found: list[dict[int, Hypothesis]],
    ) -> None:
        """Append a token to each row that does not end by it."""
        live = rows.live()
        chosen = self.next_tokens(rows, constraints, rank)
        values, ids, own = (part[live, 0] for part in chosen)
        possible, ends = np.isfinite(values), self.is_end(ids) & ~constraints.in_prompt(rows)[live]
        done = possible & ends
        for row, value in zip(live[done].tolist(), own[done].tolist(), strict=True):
            ended = self.hypothesis(rows, constraints, row, value, value)
            found[rows.sentence[row]][int(rows.rank[row])] = ended
        continued = possible & ~ends
        slots = rows.select(live[continued], rows.rank[live[continued]])
        rows.append(slots, ids[continued], own[continued])

    def end_stopped(
        self, rows: HypothesisRows, constraints: RequestConstraints, found: list[dict[int, Hypothesis]]
    ) -> None:
        """Finish the rows that have generated a stop text, or as much as they may."""
        stopped = self.at_a_stop(rows, constraints)
        for row in stopped.tolist():
            found[rows.sentence[row]][int(rows.rank[row])] = self.stopped(rows, constraints, row)
        drop(rows, stopped)


def in_order(found: dict[int, Hypothesis]) -> list[Hypothesis]:
    """The hypotheses in the order of their samples."""
    return [found[sample] for sample in sorted(found)]
