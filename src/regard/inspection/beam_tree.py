"""The tree of a beam search: candidates that were kept, dropped or finished, and the answer.

A subclass of the search records its candidates at each step and makes the same decisions.
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

NodeState = Literal["live", "dropped", "ended", "best"]
Path = tuple[int, ...]  # all tokens from the start, forced ones included


@dataclass(frozen=True, kw_only=True)
class Node:
    """A candidate token that follows the tokens of its ancestors."""

    id: int  # its index in `BeamTree.nodes`
    parent: int | None  # None for a first token
    step: int  # number of tokens before it, without a forced prefix
    token_id: int
    log_prob: float  # of this token, nats
    total: float  # of all tokens up to it, nats
    score: float  # total, adjusted by rules, divided by the length penalty, as if the hypothesis ended here
    state: NodeState  # live: kept for the next step; dropped; ended: finished; best: the end of the answer


@dataclass(frozen=True, kw_only=True)
class BeamTree:
    """The candidates of a search. `nodes` are ordered by step, then by rank, so parents come first."""

    size: int
    nodes: list[Node]

    @property
    def best(self) -> Node | None:
        """The last node of the hypothesis that the search returned; None if it found none."""
        return next((node for node in self.nodes if node.state == "best"), None)

    def path(self, node: Node) -> list[Node]:
        """The nodes from a first token to `node`."""
        nodes_up = [node]
        while (parent := nodes_up[-1].parent) is not None:
            nodes_up.append(self.nodes[parent])
        return nodes_up[::-1]


def search_tree(search: Search, decode: Callable[[Search], Sequence[Hypothesis]]) -> BeamTree:
    """The tree of the search for one request; `decode` runs the search that it is given.

    `decode` is for instance `lambda search: decode_all(search, model, [ids])[0]`. For any search other than
    `BeamSearch` itself, such as greedy search, the tree has only the hypotheses that were found.
    """
    if type(search) is not BeamSearch:
        return _tree_of_hypotheses(search, decode(search))
    recorded = _RecordedBeamSearch(**{each.name: getattr(search, each.name) for each in fields(search)})
    decode(recorded)
    return BeamTree(size=search.size, nodes=recorded.builder.nodes)


@dataclass
class _TreeBuilder:
    """Collects the nodes of a tree."""

    nodes: list[Node] = field(default_factory=list)
    by_path: dict[Path, int] = field(default_factory=dict)

    def add(
        self, path: Path, *, forced: int, log_prob: float, total: float, score: float, state: NodeState
    ) -> None:
        self.by_path[path] = len(self.nodes)
        self.nodes.append(
            Node(
                id=len(self.nodes),
                parent=self.by_path.get(path[:-1]),
                step=len(path) - 1 - forced,
                token_id=path[-1],
                log_prob=log_prob,
                total=total,
                score=score,
                state=state,
            )
        )

    def at(self, path: Path) -> Node | None:
        return self.nodes[self.by_path[path]] if path in self.by_path else None

    def mark(self, path: Path, state: NodeState) -> None:
        number = self.by_path[path]
        self.nodes[number] = replace(self.nodes[number], state=state)


@dataclass(frozen=True, kw_only=True)
class _RecordedBeamSearch(BeamSearch):
    """A beam search for a single request that records its candidates."""

    builder: _TreeBuilder = field(default_factory=_TreeBuilder)

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        assert len(requests) == 1, "a tree has one request"
        answer = super().__call__(stepper, requests)
        if answer[0]:
            self.builder.mark(self._end_of(answer[0][0]), "best")
        return answer

    def _end_of(self, hypothesis: Hypothesis) -> Path:
        """The path of a finished hypothesis: its ids with an end token, or its ids alone at a stop string."""
        ids = tuple(hypothesis.ids)
        paths = [ids, *((*ids, end) for end in (self.eos_id, *self.ends))]
        ended = [path for path in paths if (node := self.builder.at(path)) and node.state == "ended"]
        return max(ended, key=lambda path: self.builder.nodes[self.builder.by_path[path]].score)

    def continued(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        found: Candidates,
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        kept = super().continued(rows, constraints, found, greatest, finished)
        forced = int(constraints.uncounted[0])
        if rows.length >= forced:
            for rank in np.flatnonzero(np.isfinite(found.total[0])).tolist():
                self._add_candidate(rows, found, rank, forced, stays=bool(kept[0, rank]))
        return kept

    def _add_candidate(
        self, rows: HypothesisRows, found: Candidates, rank: int, forced: int, *, stays: bool
    ) -> None:
        parent, token = int(found.parents[0, rank]), int(found.ids[0, rank])
        ends = self.ends_by(token) and rank < self.size
        log_prob, adjusted = float(found.own[0, rank]), float(found.total[0, rank])
        total = float(rows.token_log_probs[parent].sum()) + log_prob if self.changes_scores else adjusted
        self.builder.add(
            (*rows.ids[parent].tolist(), token),
            forced=forced,
            log_prob=log_prob,
            total=total,
            score=adjusted / self.length_penalty(rows.length + 1 - forced),
            state="ended" if ends else "live" if stays else "dropped",
        )

    def stopped(self, rows: HypothesisRows, constraints: RequestConstraints, row: int) -> Hypothesis:
        self.builder.mark(tuple(rows.ids[row].tolist()), "ended")
        return super().stopped(rows, constraints, row)


def _tree_of_hypotheses(search: Search, found: Sequence[Hypothesis]) -> BeamTree:
    """The tree of these hypotheses; common prefixes share nodes."""
    builder = _TreeBuilder()
    for number, hypothesis in enumerate(found):
        token_log_probs = hypothesis.token_log_probs
        num_ends = len(token_log_probs) - len(hypothesis.ids)  # 1, or 0 at a stop string
        ids = (*hypothesis.ids, *[search.eos_id] * num_ends)
        totals = accumulate(token_log_probs)
        for length, (log_prob, total) in enumerate(zip(token_log_probs, totals, strict=True), start=1):
            if (path := ids[:length]) not in builder.by_path:
                score = total / search.length_penalty(length)
                builder.add(path, forced=0, log_prob=log_prob, total=total, score=score, state="live")
        if ids:
            builder.mark(ids, "ended" if number else "best")
    return BeamTree(size=getattr(search, "size", 1), nodes=builder.nodes)
