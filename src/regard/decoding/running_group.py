"""Requests that are decoded together in a running batch: they join, advance by a token, and leave."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.decoding.base_search import Search, SearchSteps
from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.rows import HypothesisRows, TakenToken
from regard.decoding.running_search import can_join, can_run, running
from regard.decoding.speculative import SpeculativeDecoding
from regard.decoding.step import CacheStepper, Stepper

STEPWISE = (DiverseBeamSearch, ConstrainedBeamSearch, SpeculativeDecoding)  # regard's own that nothing joins


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A request with the number of its ticket and the tokens that are read before its first step."""

    ticket: int
    request: Request
    ids: tuple[int, ...]
    alone: bool = False  # True if it is not to be decoded with others, because one of them failed


Answer = tuple[Arrival, list[Hypothesis]]


class Group(ABC):
    """Requests that are decoded together."""

    arrivals: list[Arrival]  # that are not done

    @abstractmethod
    def step(self) -> list[Answer]:
        """Advance each by a token. Those that are done leave, and are returned."""

    @abstractmethod
    def leave(self, tickets: set[int]) -> None:
        """Drop the requests of these tickets."""

    @abstractmethod
    def generated(self, ticket: int) -> list[list[int]]:
        """The unfinished hypotheses of a request, without its prefix."""

    @abstractmethod
    def taken(self, ticket: int, begin: int) -> list[TakenToken]:
        """The tokens of a request's first unfinished hypothesis, from token `begin` after its prefix."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Unfinished hypotheses."""

    @property
    @abstractmethod
    def num_tokens(self) -> int:
        """The tokens of these, prefixes included, and padding if it takes memory."""


class JoinedGroup(Group):
    """Requests of one running search; others can join it if the model has a fast step."""

    def __init__(
        self, search: Search, stepper: Stepper, arrivals: Sequence[Arrival], alternatives: int
    ) -> None:
        """The stepper has read the arrivals. `alternatives` tokens are recorded at each step."""
        self.arrivals, self._stepper = list(arrivals), stepper
        self._joins = can_join(search) and not any(each.alone for each in arrivals)
        self._running = running(search, stepper, [each.request for each in arrivals])
        if alternatives:
            self._running.rows.record_alternatives(alternatives)

    @property
    def num_rows(self) -> int:
        return len(self._running.rows.live())

    @property
    def num_tokens(self) -> int:
        lengths = self._running.rows.lengths
        pads = isinstance(self._stepper, CacheStepper) and self._stepper.pads
        return int(len(lengths) * lengths.max(initial=0) if pads else lengths.sum())

    def can_join(self, stepper: Stepper) -> bool:
        """True if the rows of this stepper can join."""
        return self._joins and isinstance(self._stepper, CacheStepper) and self._stepper.can_join(stepper)

    def join(self, stepper: Stepper, arrivals: Sequence[Arrival]) -> None:
        """Take these requests in, which the stepper has read."""
        assert isinstance(self._stepper, CacheStepper)
        assert isinstance(stepper, CacheStepper)
        self._stepper.join(stepper)
        self._running.join([each.request for each in arrivals])
        self.arrivals += arrivals

    def step(self) -> list[Answer]:
        self._running.step()
        is_running = self._running.is_running()
        done = np.flatnonzero(~is_running).tolist()
        finished = [(self.arrivals[place], self._running.answer(place)) for place in done]
        if done:
            self._keep(is_running)
        return finished

    def leave(self, tickets: set[int]) -> None:
        self._keep(np.array([each.ticket not in tickets for each in self.arrivals], bool))

    def _keep(self, kept: np.ndarray) -> None:
        places = np.flatnonzero(kept)
        self._running.select(places)
        self.arrivals = [self.arrivals[place] for place in places.tolist()]

    def generated(self, ticket: int) -> list[list[int]]:
        return self._running.generated(self._place(ticket))

    def taken(self, ticket: int, begin: int) -> list[TakenToken]:
        return self._running.taken(self._place(ticket), begin)

    def _place(self, ticket: int) -> int:
        return next(place for place, each in enumerate(self.arrivals) if each.ticket == ticket)


class SeparateGroup(Group):
    """Requests of a search that nothing joins. Its rows leave together; a ticket is dropped by itself.

    A registered search with a `__call__` of its own is run as a whole in the first step.
    """

    def __init__(self, search: Search, stepper: Stepper, arrivals: Sequence[Arrival]) -> None:
        """The stepper has read the arrivals."""
        self.arrivals, self._of_step = list(arrivals), list(arrivals)
        self._rows: HypothesisRows | None = None
        self._steps = _steps(search, stepper, [each.request for each in arrivals])

    @property
    def num_rows(self) -> int:
        return len(self._of_step) if self._rows is None else len(self._rows.live())

    @property
    def num_tokens(self) -> int:
        return 0 if self._rows is None else int(self._rows.lengths.sum())

    def step(self) -> list[Answer]:
        try:
            self._rows = next(self._steps)
            return []
        except StopIteration as end:
            found = {
                each.ticket: hypotheses for each, hypotheses in zip(self._of_step, end.value, strict=True)
            }
            finished = [(each, found[each.ticket]) for each in self.arrivals]
            self.arrivals = []
            return finished

    def leave(self, tickets: set[int]) -> None:
        self.arrivals = [each for each in self.arrivals if each.ticket not in tickets]

    def generated(self, ticket: int) -> list[list[int]]:
        rows, prefix = self._rows_of(ticket)
        return [] if self._rows is None else [self._rows.ids_of(row)[prefix:] for row in rows]

    def taken(self, ticket: int, begin: int) -> list[TakenToken]:
        rows, prefix = self._rows_of(ticket)
        return self._rows.taken(rows[0], prefix + begin) if self._rows is not None and rows else []

    def _rows_of(self, ticket: int) -> tuple[list[int], int]:
        """The rows of a request, and the length of its prefix."""
        place = next(place for place, each in enumerate(self._of_step) if each.ticket == ticket)
        prefix = len(self._of_step[place].request.prefix)
        return [] if self._rows is None else np.flatnonzero(self._rows.sentence == place).tolist(), prefix


def _steps(search: Search, stepper: Stepper, requests: Sequence[Request]) -> SearchSteps:
    if type(search) in STEPWISE:
        assert isinstance(search, DiverseBeamSearch | ConstrainedBeamSearch | DecodingLoop)
        return (yield from search.run(stepper, requests))
    return search(stepper, requests)


def group_of(search: Search, stepper: Stepper, arrivals: Sequence[Arrival], alternatives: int = 0) -> Group:
    """A group of these requests, which the stepper has read."""
    if can_run(search):
        return JoinedGroup(search, stepper, arrivals, alternatives)
    return SeparateGroup(search, stepper, arrivals)
