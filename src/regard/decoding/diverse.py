"""Diverse beam search: groups that avoid each other's tokens (Vijayakumar et al. 2016, algorithm 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from regard.decoding.base_search import (
    NextTokenScores,
    RequestConstraints,
    SearchSteps,
    after_all_steps,
    drop,
)
from regard.decoding.hypothesis import Hypothesis, Request, best_first
from regard.decoding.ranking import top_candidates
from regard.decoding.rows import HypothesisRows
from regard.decoding.search import BeamSearch, Candidates, FinishedHypotheses
from regard.decoding.step import Stepper
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DiverseBeamSearch(BeamSearch):
    """`groups` beams of equal size, one after the other at each step.

    A group ranks its candidates by their score less `diversity` for each hypothesis of an earlier group that
    takes the same token at this step (the Hamming diversity of section 4). The penalty affects the ranking
    only, not the score. The first group is a plain beam. The result is the best of each group, then the
    second best of each, and so on, no hypothesis twice.
    """

    groups: int = 2
    diversity: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups < 1 or self.size % self.groups:
            raise ConfigError(
                f"a beam of {self.size} cannot be split into {self.groups} equal groups",
                "for instance a beam of 6 and 3 groups",
            )

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        return after_all_steps(self.run(stepper, requests))

    def run(self, stepper: Stepper, requests: Sequence[Request]) -> SearchSteps:
        """As a call, step by step."""
        beam = self._group()
        finished_groups = [FinishedHypotheses(len(requests), beam.size) for _ in range(self.groups)]
        constraints = RequestConstraints(requests, self.limits, self.eos_id)
        greatest = self.greatest(constraints)
        rows = self.rows(stepper, requests)
        members = [rows.live()] * self.groups  # at first all groups share the same rows
        while len(rows.live()):
            prepared = self.prepare(rows.step(self.bos_id), rows, constraints)
            taken = np.zeros((len(requests), prepared.log_probs.size(1)))
            parts: list[tuple[Candidates, np.ndarray]] = []
            open_still = np.zeros(len(requests), bool)  # True where a group may still find a better one
            for finished, live in zip(finished_groups, members, strict=True):
                found = self._candidates_of(beam, rows, prepared, live, taken)
                kept = beam.finish(rows, constraints, found, finished)
                able = beam.could_win(found.total, greatest, finished)
                kept = kept & able if self.early_stopping else kept
                open_still |= (kept & able).any(axis=1)
                np.add.at(taken, (np.nonzero(kept)[0], found.ids[kept]), 1)
                parts.append((found, kept))
            parents, rank, ids, own, values = _joined(parts, open_still, beam.size)
            slots = rows.select(parents, rank)
            rows.append(slots, ids, own, values if self.changes_scores else None)
            for row in (stopped := self.at_a_stop(rows, constraints)).tolist():
                finished = finished_groups[rows.rank[row] // beam.size]
                finished.add(int(rows.sentence[row]), self.stopped(rows, constraints, row))
            drop(rows, stopped)
            live = rows.live()
            members = [live[rows.rank[live] // beam.size == number] for number in range(self.groups)]
            yield rows
        return [
            self._best([finished.found[place] for finished in finished_groups])
            for place in range(len(requests))
        ]

    def _group(self) -> BeamSearch:
        """The search of one group."""
        size = self.size // self.groups
        common = {each.name: getattr(self, each.name) for each in fields(BeamSearch)}
        return BeamSearch(**{**common, "size": size, "n_best": size})

    def _candidates_of(
        self,
        beam: BeamSearch,
        rows: HypothesisRows,
        prepared: NextTokenScores,
        live: Int64[np.ndarray, " live"],
        taken: Float64[np.ndarray, "sentences vocab"],
    ) -> Candidates:
        """The candidates of one group, with penalties for the tokens of earlier groups."""
        where = torch.from_numpy(live)
        log_probs = prepared.log_probs[where.to(prepared.log_probs.device)]
        penalties = self.diversity * taken[rows.sentence[live]]
        _, best = top_candidates(log_probs - torch.from_numpy(penalties).to(log_probs), beam.tokens_of_row)
        shape = (len(rows.sentence), best.shape[1])
        ids, values, penalised = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
        ids[live] = best
        values[live] = log_probs.gather(1, torch.from_numpy(best).to(log_probs.device)).cpu().numpy()
        penalised[live] = np.take_along_axis(penalties, best, axis=1)
        chosen = self.settle(prepared, live, values, ids)
        return beam.candidates(rows, len(taken), chosen, live=live, penalties=penalised)

    def _best(self, groups: list[list[Hypothesis]]) -> list[Hypothesis]:
        """The best of each group, then the second best of each, until there are enough; the best first."""
        found: dict[tuple[int, ...], Hypothesis] = {}
        for place in range(max(map(len, groups))):
            for hypothesis in best_first(
                [group[place] for group in groups if place < len(group)], len(groups)
            ):
                if len(found) < self.n_best:
                    found.setdefault(tuple(hypothesis.ids), hypothesis)
        return best_first(list(found.values()), self.n_best)


def _joined(
    parts: Sequence[tuple[Candidates, np.ndarray]], open_still: Bool[np.ndarray, " sentences"], size: int
) -> Iterator[np.ndarray]:
    """Parents, ranks, tokens, log-probabilities and values of the continued candidates, group after group."""
    columns = []
    for number, (found, kept) in enumerate(parts):
        kept = kept & open_still[:, None]
        rank = kept.cumsum(axis=1) - 1 + number * size
        columns.append(
            (found.parents[kept], rank[kept], found.ids[kept], found.own[kept], found.values[kept])
        )
    return (np.concatenate(column) for column in zip(*columns, strict=True))
