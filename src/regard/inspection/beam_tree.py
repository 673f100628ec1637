"""A beam search as the tree that it was: what lived on, what was dropped, what ended, and what won.

A search is watched by one of its own kind that notes its candidates at each step; it decides the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64

from regard.decoding.base_search import RequestConstraints, Search
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.rows import HypothesisRows
from regard.decoding.search import BeamSearch, Candidates, FinishedHypotheses
from regard.decoding.step import Stepper

State = Literal["live", "dropped", "ended", "best"]
Path = tuple[int, ...]  # all tokens said, what was given included


@dataclass(frozen=True, kw_only=True)
class Node:
    """A token that was thought of after those on the way to it."""

    id: int  # its place in `BeamTree.nodes`
    parent: int | None  # None: it is a first token
    step: int  # how many tokens stand before it, what was given not counted
    token_id: int
    log_prob: float  # of this token, nats
    total: float  # of all up to it, nats
    score: float  # the total, with what rules have weighed, by the length penalty, as if it ended here
    state: State  # live: searched on, if only for a step; dropped; ended; best: the end that is answered


@dataclass(frozen=True, kw_only=True)
class BeamTree:
    """`nodes` stand after their parents, step after step, those of a step by their rank."""

    size: int
    nodes: list[Node]

    @property
    def best(self) -> Node | None:
        """The end of the hypothesis that the search answers with; None: it found none."""
        return next((node for node in self.nodes if node.state == "best"), None)

    def path(self, node: Node) -> list[Node]:
        """From a first token to `node`."""
        way = [node]
        while (parent := way[-1].parent) is not None:
            way.append(self.nodes[parent])
        return way[::-1]


def beam_tree(search: Search, decode: Callable[[Search], Sequence[Hypothesis]]) -> BeamTree:
    """The tree of the one search that `decode` does with the search that it is given.

    `decode` is for instance `lambda search: decode_all(search, model, [ids])[0]`. Of a search that is no
    plain beam, greedy search among them, the tree has only what it found.
    """
    if type(search) is not BeamSearch:
        return _of_found(search, decode(search))
    watched = _RecordedBeamSearch(**{each.name: getattr(search, each.name) for each in fields(search)})
    decode(watched)
    return BeamTree(size=search.size, nodes=watched.notes.nodes)


@dataclass
class _TreeBuilder:
    """The tree as it grows."""

    nodes: list[Node] = field(default_factory=list)
    by_path: dict[Path, int] = field(default_factory=dict)

    def add(
        self, path: Path, *, given: int, log_prob: float, total: float, score: float, state: State
    ) -> None:
        self.by_path[path] = len(self.nodes)
        self.nodes.append(
            Node(
                id=len(self.nodes),
                parent=self.by_path.get(path[:-1]),
                step=len(path) - 1 - given,
                token_id=path[-1],
                log_prob=log_prob,
                total=total,
                score=score,
                state=state,
            )
        )

    def at(self, path: Path) -> Node | None:
        return self.nodes[self.by_path[path]] if path in self.by_path else None

    def mark(self, path: Path, state: State) -> None:
        number = self.by_path[path]
        self.nodes[number] = replace(self.nodes[number], state=state)


@dataclass(frozen=True, kw_only=True)
class _RecordedBeamSearch(BeamSearch):
    """A beam search of a single request that notes what it sees."""

    notes: _TreeBuilder = field(default_factory=_TreeBuilder)

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        assert len(requests) == 1, "one tree is of one request"
        answer = super().__call__(stepper, requests)
        if answer[0]:
            self.notes.mark(self._end_of(answer[0][0]), "best")
        return answer

    def _end_of(self, hypothesis: Hypothesis) -> Path:
        """The path that ended with this hypothesis: its ids and an end, or its ids alone at a stop text."""
        ids = tuple(hypothesis.ids)
        ways = [ids, *((*ids, end) for end in (self.eos_id, *self.ends))]
        ended = [node for way in ways if (node := self.notes.at(way)) is not None and node.state == "ended"]
        best = max(ended, key=lambda node: node.score)
        return next(way for way in ways if self.notes.at(way) is best)

    def continued(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        found: Candidates,
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        on = super().continued(rows, constraints, found, greatest, finished)
        given = int(constraints.uncounted[0])
        if rows.length >= given:
            for place in np.flatnonzero(np.isfinite(found.total[0])).tolist():
                self._note(rows, found, place, given, stays=bool(on[0, place]))
        return on

    def _note(self, rows: HypothesisRows, found: Candidates, place: int, given: int, *, stays: bool) -> None:
        parent, token = int(found.parents[0, place]), int(found.ids[0, place])
        ends = self.ends_by(token) and place < self.size
        log_prob, rank = float(found.own[0, place]), float(found.total[0, place])
        total = float(rows.token_log_probs[parent].sum()) + log_prob if self.changes_scores else rank
        self.notes.add(
            (*rows.ids[parent].tolist(), token),
            given=given,
            log_prob=log_prob,
            total=total,
            score=rank / self.length_penalty(rows.length + 1 - given),
            state="ended" if ends else "live" if stays else "dropped",
        )

    def stopped(self, rows: HypothesisRows, constraints: RequestConstraints, row: int) -> Hypothesis:
        self.notes.mark(tuple(rows.ids[row].tolist()), "ended")
        return super().stopped(rows, constraints, row)


def _of_found(search: Search, found: Sequence[Hypothesis]) -> BeamTree:
    """The ways of these hypotheses, put together where they begin alike."""
    notes = _TreeBuilder()
    for number, hypothesis in enumerate(found):
        each = hypothesis.token_log_probs
        ids = (
            *hypothesis.ids,
            *[search.eos_id] * (len(each) - len(hypothesis.ids)),
        )  # one, or none at a stop
        for place, (log_prob, total) in enumerate(zip(each, accumulate(each), strict=True), start=1):
            if (path := ids[:place]) not in notes.by_path:
                score = total / search.length_penalty(place)
                notes.add(path, given=0, log_prob=log_prob, total=total, score=score, state="live")
        if ids:
            notes.mark(ids, "ended" if number else "best")
    return BeamTree(size=getattr(search, "size", 1), nodes=notes.nodes)
