"""Diverse beam search: groups that avoid each other's tokens (Vijayakumar et al. 2016, algorithm 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from regard.decoding.base_search import NextTokenScores, RequestConstraints, drop
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
    goes on with the same token at this step (the Hamming diversity of section 4). That is for the choice
    alone: what a hypothesis carries on is its score. The first group is a plain beam. Found are the best of
    each group, then the second best of each, and so on, no hypothesis twice.
    """

    groups: int = 2
    diversity: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups < 1 or self.beam_size % self.groups:
            raise ConfigError(
                f"beam_size ({self.beam_size}) cannot be parted into {self.groups} equal groups",
                "for instance beam_size = 6 and 3 groups",
            )

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        beam = self._group()
        podiums = [FinishedHypotheses(len(requests), beam.beam_size) for _ in range(self.groups)]
        course = RequestConstraints(requests, self.limits, self.eos_id)
        greatest = self.greatest(course)
        rows = self.rows(stepper, requests)
        members = [rows.live()] * self.groups  # at first all groups go on from the same rows
        while len(rows.live()):
            prepared = self.prepare(rows.step(self.bos_id), rows, course)
            taken = np.zeros((len(requests), prepared.log_probs.size(1)))
            parts: list[tuple[Candidates, np.ndarray]] = []
            open_still = np.zeros(len(requests), bool)  # whether any group may still find a better one
            for podium, live in zip(podiums, members, strict=True):
                found = self._candidates_of(beam, rows, prepared, live, taken)
                on = beam.finish(rows, course, found, podium)
                able = beam.could_win(found.total, greatest, podium)
                on = on & able if self.early_stopping else on
                open_still |= (on & able).any(axis=1)
                np.add.at(taken, (np.nonzero(on)[0], found.ids[on]), 1)
                parts.append((found, on))
            parents, rank, ids, own, values = _joined(parts, open_still, beam.beam_size)
            seats = rows.select(parents, rank)
            rows.append(seats, ids, own, values if self.weighs else None)
            for row in (stopped := self.at_a_stop(rows, course)).tolist():
                podium = podiums[rows.rank[row] // beam.beam_size]
                podium.add(int(rows.sentence[row]), self.stopped(rows, course, row))
            drop(rows, stopped)
            live = rows.live()
            members = [live[rows.rank[live] // beam.beam_size == number] for number in range(self.groups)]
        return [self._best([podium.found[place] for podium in podiums]) for place in range(len(requests))]

    def _group(self) -> BeamSearch:
        """The search of one group."""
        size = self.beam_size // self.groups
        common = {each.name: getattr(self, each.name) for each in fields(BeamSearch)}
        return BeamSearch(**{**common, "beam_size": size, "n_best": size})

    def _candidates_of(
        self,
        beam: BeamSearch,
        rows: HypothesisRows,
        prepared: NextTokenScores,
        live: Int64[np.ndarray, " live"],
        taken: Float64[np.ndarray, "sentences vocab"],
    ) -> Candidates:
        """Of one group's rows, with fines for what earlier groups have taken."""
        where = torch.from_numpy(live)
        log_probs = prepared.log_probs[where.to(prepared.log_probs.device)]
        fines = self.diversity * taken[rows.sentence[live]]
        _, best = top_candidates(log_probs - torch.from_numpy(fines).to(log_probs), beam.beam_size + 1)
        shape = (len(rows.sentence), best.shape[1])
        ids, values, fined = np.zeros(shape, np.int64), np.full(shape, -np.inf), np.zeros(shape)
        ids[live] = best
        values[live] = log_probs.gather(1, torch.from_numpy(best).to(log_probs.device)).cpu().numpy()
        fined[live] = np.take_along_axis(fines, best, axis=1)
        chosen = self.settle(prepared, live, values, ids)
        return beam.candidates(rows, len(taken), chosen, live=live, fines=fined)

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
    """Parents, ranks, tokens, log-probabilities and values of what goes on, group after group."""
    columns = []
    for number, (found, on) in enumerate(parts):
        on = on & open_still[:, None]
        rank = on.cumsum(axis=1) - 1 + number * size
        columns.append((found.parents[on], rank[on], found.ids[on], found.own[on], found.values[on]))
    return (np.concatenate(column) for column in zip(*columns, strict=True))
