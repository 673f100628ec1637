"""A search as a state: requests join it, it advances by one token at a time, and they leave when done.

The steps are those of the search itself (`DecodingLoop.step`, `BeamSearch.step`), so that a request has the
same hypotheses, to the bit, whatever joins and leaves beside it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int64

from regard.decoding.base_search import RequestConstraints, Search
from regard.decoding.decoding_loop import DecodingLoop, in_order
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.rows import SPARE, TakenToken
from regard.decoding.sampling import Sampling
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.step import CacheStepper, Stepper


class RunningSearch(ABC):
    """The state of a search. Its requests are numbered from 0; when some leave, the others close up."""

    def __init__(self, search: Search, stepper: Stepper, requests: Sequence[Request]) -> None:
        """The stepper has read the requests, a row each."""
        self.rows = search.rows(stepper, requests)
        self.constraints = RequestConstraints(requests, search.limits, search.eos_id)
        self._limits, self._eos_id = search.limits, search.eos_id

    @property
    def requests(self) -> list[Request]:
        return self.constraints.requests

    def join(self, requests: Sequence[Request]) -> None:
        """Append these requests, whose rows have joined the stepper."""
        known = len(self.requests)
        self.constraints.join(RequestConstraints(requests, self._limits, self._eos_id))
        new = np.arange(known, known + len(requests))
        self.rows.join(new, [request.prefix[: request.begun] for request in requests])

    @abstractmethod
    def step(self) -> None:
        """Advance every request by one token."""

    def is_running(self) -> Bool[np.ndarray, " requests"]:
        """False for each request that is done."""
        found = np.zeros(len(self.requests), bool)
        found[self.rows.sentence[self.rows.live()]] = True
        return found

    @abstractmethod
    def answer(self, place: int) -> list[Hypothesis]:
        """The best hypotheses of a request that is done, as the search alone would give them."""

    def select(self, kept: Int64[np.ndarray, " kept"]) -> None:
        """Keep these requests only, in this order; the rows of all others leave."""
        number = np.full(len(self.requests) + 1, SPARE)  # of SPARE, the last, none
        number[kept] = np.arange(len(kept))
        rows, sentence = self.rows, number[self.rows.sentence]
        if (staying := sentence != SPARE).sum() < len(rows.live()):
            rows.select(np.flatnonzero(staying), rows.rank[staying])
            sentence = number[rows.sentence]
        rows.renumber(sentence)
        self.constraints.select(kept)

    def generated(self, place: int) -> list[list[int]]:
        """The unfinished hypotheses of a request, best or first first, without its prefix."""
        rows = self.rows
        of_request = np.flatnonzero(rows.sentence == place)
        order = of_request[np.argsort(rows.rank[of_request])].tolist()
        return [rows.ids_of(row)[self.constraints.prefix_lengths[place] :] for row in order]

    def taken(self, place: int, begin: int) -> list[TakenToken]:
        """The tokens of the first unfinished hypothesis of a request, from token `begin` after its prefix."""
        of_request = np.flatnonzero(self.rows.sentence == place)
        if not len(of_request):
            return []
        row = int(of_request[np.argmin(self.rows.rank[of_request])])
        return self.rows.taken(row, int(self.constraints.prefix_lengths[place]) + begin)


class RunningLoop(RunningSearch):
    """Greedy decoding or sampling."""

    def __init__(self, search: DecodingLoop, stepper: Stepper, requests: Sequence[Request]) -> None:
        super().__init__(search, stepper, requests)
        self._search = search
        self._found: list[dict[int, Hypothesis]] = [{} for _ in requests]
        search.sample(self.rows, np.arange(len(requests)))
        self._rank = search.ranking(self.requests)

    def join(self, requests: Sequence[Request]) -> None:
        super().join(requests)
        self._found += [{} for _ in requests]
        self._search.sample(self.rows, np.arange(len(self.requests) - len(requests), len(self.requests)))
        self._rank = self._search.ranking(self.requests)

    def step(self) -> None:
        self._search.step(self.rows, self.constraints, self._rank(self.rows), self._found)
        self._search.end_stopped(self.rows, self.constraints, self._found)

    def answer(self, place: int) -> list[Hypothesis]:
        return in_order(self._found[place])

    def select(self, kept: Int64[np.ndarray, " kept"]) -> None:
        super().select(kept)
        self._found = [self._found[place] for place in kept.tolist()]
        self._rank = self._search.ranking(self.requests)


class RunningBeam(RunningSearch):
    """Beam search."""

    def __init__(self, search: BeamSearch, stepper: Stepper, requests: Sequence[Request]) -> None:
        super().__init__(search, stepper, requests)
        self._search = search
        self._finished = search.none_finished(len(requests))
        self._greatest = search.greatest(self.constraints)

    def join(self, requests: Sequence[Request]) -> None:
        super().join(requests)
        self._finished.join(len(requests))
        self._greatest = self._search.greatest(self.constraints)

    def step(self) -> None:
        self._search.step(self.rows, self.constraints, self._greatest, self._finished)

    def answer(self, place: int) -> list[Hypothesis]:
        return self._finished.found[place][: self._search.n_best]

    def select(self, kept: Int64[np.ndarray, " kept"]) -> None:
        super().select(kept)
        self._finished.select(kept)
        self._greatest = self._greatest[kept]


def can_join(search: object) -> bool:
    """True if requests can join this search while it runs: known of three of regard's own."""
    return type(search) in (GreedySearch, Sampling, BeamSearch)


def records_alternatives(search: object) -> bool:
    """True if the most probable tokens at each step of this search can be recorded."""
    return can_join(search)


def can_run(search: object) -> bool:
    """True if the steps of a search are those of its running form, even if a subclass changes parts."""
    if isinstance(search, BeamSearch):
        return type(search).__call__ is BeamSearch.__call__
    return isinstance(search, DecodingLoop) and all(
        getattr(type(search), name) is getattr(DecodingLoop, name) for name in ("__call__", "run", "steps")
    )


def running(search: Search, stepper: Stepper, requests: Sequence[Request]) -> RunningSearch:
    """The running form of a search that `can_run`, with these requests; the stepper has read them."""
    if isinstance(search, BeamSearch):
        return RunningBeam(search, stepper, requests)
    assert isinstance(search, DecodingLoop)
    return RunningLoop(search, stepper, requests)


def run_together(search: Search, read: Sequence[tuple[Stepper, Sequence[Request]]]) -> list[list[Hypothesis]]:
    """The hypotheses of all requests, of a search that they `can_join`. A stepper has read some of them."""
    (first, requests), *others = read
    state = running(search, first, requests)
    for stepper, more in others:
        assert isinstance(first, CacheStepper)
        assert isinstance(stepper, CacheStepper)
        first.join(stepper)
        state.join(more)
    while len(state.rows.live()):
        state.step()
    return [state.answer(place) for place in range(len(state.requests))]
