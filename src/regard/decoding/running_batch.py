"""Continuous batching: requests join a running batch at any step, and leave it when they are done.

    batch = RunningTranslations(strategy, model)     # or RunningContinuations(strategy, language_model)
    tickets = batch.add([[17, 4, 9], [5, 8]])        # they are encoded, and join, at one of the next steps
    while batch:
        for ticket, hypotheses in batch.step():      # one token for every row; what has finished by it
            ...
        batch.generated(tickets[0])                  # the tokens so far, for streaming
        batch.cancel(tickets[1])                     # its rows leave at the next step

A batch has one strategy (a search with its settings) and one model, or an ensemble. The hypotheses of a
request (ids, log-probabilities, scores) are those of `decode_all` or `continue_all` for it alone, on a CPU to
the bit.

Requests of greedy search, sampling and beam search join each other if the model has a fast decoding step,
whatever their lengths (`joins`). All others (a model without a fast step, an ensemble, groups of beams,
required phrases, registered searches) are decoded with those that arrived at the same step, and the steps of
all take turns. Where tokens are proposed (speculative decoding), one request is decoded after the other.

Not for several threads at once. A batch keeps no lock: the caller calls one method at a time.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from regard.decoding.base_search import Search
from regard.decoding.batches import deterministic, max_positions, min_source_length, padded, refuse_long
from regard.decoding.continuation import Prompt, without_prompt
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.prompt_stepper import PromptStepper, prompt_stepper
from regard.decoding.rows import TakenToken
from regard.decoding.running_group import Answer, Arrival, Group, JoinedGroup, group_of
from regard.decoding.running_search import can_join, records_alternatives
from regard.decoding.step import ModelStepper, Parts, Stepper, stepper_of
from regard.errors import ConfigError, RegardError, RunError, UserError
from regard.fast.decoding_step import fast_step
from regard.models.decoder_only import DecoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence

ARRIVAL_TOKENS = 1024
PATIENCE = 6  # steps that an arrival waits for others, if many are running: encoders are faster for several
Reading = Generator[None, None, list[tuple[Stepper, Sequence[Arrival]]]]


class Finished(NamedTuple):
    """The hypotheses of a request that is done, by its ticket."""

    ticket: int
    hypotheses: list[Hypothesis]


class Arriving:
    """Arrivals that are being read."""

    def __init__(self, arrivals: Sequence[Arrival], reading: Reading) -> None:
        self.arrivals, self._reading = arrivals, reading
        self.tokens = sum(len(each.ids) for each in arrivals)
        self._read: list[tuple[Stepper, Sequence[Arrival]]] | None = None

    def read_part(self) -> bool:
        """Read a part. Returns True if that was the last."""
        try:
            next(self._reading)
        except StopIteration as end:
            self._read = end.value
        return self._read is not None

    def read_all(self) -> list[tuple[Stepper, Sequence[Arrival]]]:
        """Read the rest. Returns steppers, and which arrivals each has read."""
        while self._read is None:
            self.read_part()
        return self._read


class RunningBatch(ABC):
    """What translations and continuations share. It is true while a request is unfinished."""

    def __init__(
        self,
        strategy: Search,
        models: Sequence[nn.Module],
        *,
        arrival_tokens: int,
        alternatives: int,
    ) -> None:
        """Between two steps `arrival_tokens` tokens of arrivals are read, or a layer of a longer one.

        `alternatives`: so many of the most probable tokens are recorded at each step.

        Raises:
            ConfigError: alternatives are not recorded by this search.
        """
        if arrival_tokens < 1:
            raise ConfigError(
                f"arrival_tokens is {arrival_tokens}, but must be at least 1", f"{ARRIVAL_TOKENS} would do"
            )
        if alternatives and not records_alternatives(strategy):
            raise ConfigError(
                f"{type(strategy).__name__} does not record the alternatives of a token",
                "greedy search, sampling and beam search do",
            )
        self.strategy, self.arrival_tokens, self.alternatives = strategy, arrival_tokens, alternatives
        self._models = list(models)
        self._waiting: deque[Arrival] = deque()
        self._arriving: Arriving | None = None
        self._groups: list[Group] = []
        self._cancelled: set[int] = set()
        self._refused: list[tuple[int, RegardError]] = []
        self._tickets = self._waited = 0

    @property
    def joins(self) -> bool:
        """True if a request joins those that run; False if it is decoded with those that arrive with it."""
        with deterministic(self._models):
            has_fast_step = len(self._models) == 1 and fast_step(self._models[0]) is not None
        return has_fast_step and can_join(self.strategy)

    @property
    def waiting(self) -> int:
        """The number of requests that have not joined."""
        return len(self._waiting) + (0 if self._arriving is None else len(self._arriving.arrivals))

    @property
    def running(self) -> int:
        """The number of requests that have joined and are not done."""
        return sum(len(group.arrivals) for group in self._groups)

    @property
    def rows(self) -> int:
        """The number of unfinished hypotheses of the requests that have joined."""
        return sum(group.num_rows for group in self._groups)

    @property
    def tokens(self) -> int:
        """The tokens of rows, sources and prompts, also of waiting requests: what memory grows with."""
        read = sum(len(each.ids) for each in self._unfinished())
        return read + sum(group.num_tokens for group in self._groups)

    def __bool__(self) -> bool:
        return bool(self.waiting or self._groups)

    def _unfinished(self) -> Iterator[Arrival]:
        yield from self._waiting
        yield from () if self._arriving is None else self._arriving.arrivals
        for group in self._groups:
            yield from group.arrivals

    def _queue(self, arrivals: Iterable[tuple[Request, tuple[int, ...]]]) -> list[int]:
        """Put these requests, and what is read of each before its first step, at the end of the queue."""
        first = self._tickets
        for request, ids in arrivals:
            self._waiting.append(Arrival(ticket=self._tickets, request=request, ids=ids))
            self._tickets += 1
        return list(range(first, self._tickets))

    def cancel(self, ticket: int) -> None:
        """Drop a request: its rows leave at the next step. Nothing happens if it is done."""
        waiting = [each for each in self._waiting if each.ticket != ticket]
        if len(waiting) < len(self._waiting):
            self._waiting = deque(waiting)
        else:
            self._cancelled.add(ticket)

    def step(self) -> list[Finished]:
        """Let arrivals join, and advance every row by a token. Returns what has finished by it."""
        finished: list[Answer] = []
        with torch.no_grad(), deterministic(self._models):
            self._leave()
            self._admit()
            for group in [*self._groups]:
                try:
                    finished += group.step()
                except (UserError, RunError) as error:
                    self._split(group, error)
        self._groups = [group for group in self._groups if group.arrivals]
        return [
            Finished(each.ticket, self._answer(each, hypotheses))
            for each, hypotheses in finished
            if each.ticket not in self._cancelled  # while it was read
        ]

    def refused(self) -> list[tuple[int, RegardError]]:
        """The requests that could not be answered since the last call, and why."""
        found, self._refused = self._refused, []
        return found

    def generated(self, ticket: int) -> list[list[int]]:
        """The unfinished hypotheses of a request, without its prefix or prompt; none if it waits or is done.

        Those of greedy search and of samples only grow.
        """
        group = self._group_of(ticket)
        return [] if group is None else group.generated(ticket)

    def taken(self, ticket: int, begin: int) -> list[TakenToken]:
        """The tokens of the first hypothesis of `generated`, from the place `begin` on."""
        group = self._group_of(ticket)
        return [] if group is None else group.taken(ticket, begin)

    def _group_of(self, ticket: int) -> Group | None:
        for group in self._groups:
            if any(each.ticket == ticket for each in group.arrivals):
                return group
        return None

    def _leave(self) -> None:
        """Drop the requests that were cancelled."""
        gone, self._cancelled = self._cancelled, set()
        if not gone:
            return
        if self._arriving is not None:
            self._cancelled = gone & {
                each.ticket for each in self._arriving.arrivals
            }  # when they have joined
        for group in self._groups:
            if any(each.ticket in gone for each in group.arrivals):
                group.leave(gone)
        self._groups = [group for group in self._groups if group.arrivals]

    def _admit(self) -> None:
        """Read arrivals, if it is time to, and let them join."""
        if self._arriving is None:
            arrivals = self._next_arrivals()
            if not arrivals:
                return
            self._arriving = Arriving(arrivals, self._read(arrivals))
        arriving = self._arriving
        try:
            if arriving.tokens > self.arrival_tokens and self._groups and not arriving.read_part():
                return
            read = arriving.read_all()
        except (UserError, RunError) as error:
            self._alone(arriving.arrivals, error)
        else:
            for stepper, group in read:
                self._join(stepper, group)
        self._arriving = None

    def _next_arrivals(self) -> list[Arrival]:
        """The waiting requests that are to be read now, in their order."""
        if not self._waiting or (self.strategy.alone and self._groups):  # what proposes tokens has a state
            return []
        self._waited += 1
        if self._waited < PATIENCE and 8 * len(self._waiting) < self.running:
            return []
        self._waited = 0
        arrivals = [self._waiting.popleft()]
        tokens = len(arrivals[0].ids)
        while self._waiting and not (arrivals[0].alone or self._waiting[0].alone or self.strategy.alone):
            tokens += len(self._waiting[0].ids)
            if tokens > self.arrival_tokens:
                break
            arrivals.append(self._waiting.popleft())
        return arrivals

    def _join(self, stepper: Stepper, arrivals: Sequence[Arrival]) -> None:
        """Add these requests, which the stepper has read, to a group that they can join, or to a new one."""
        if not arrivals[0].alone:
            for group in self._groups:
                if isinstance(group, JoinedGroup) and group.can_join(stepper):
                    group.join(stepper, arrivals)
                    return
        self._groups.append(group_of(self.strategy, stepper, arrivals, self.alternatives))

    def _split(self, group: Group, error: RegardError) -> None:
        """A request of this group has failed: begin each of them again, alone."""
        self._groups.remove(group)
        self._alone(group.arrivals, error)

    def _alone(self, arrivals: Sequence[Arrival], error: RegardError) -> None:
        """Begin each of these requests again, alone; refuse one that was alone."""
        for each in reversed([each for each in arrivals if each.ticket not in self._cancelled]):
            if each.alone:
                self._refused.append((each.ticket, error))
            else:
                self._waiting.appendleft(replace(each, alone=True))

    @abstractmethod
    def _read(self, arrivals: Sequence[Arrival]) -> Reading:
        """Read all arrivals in parts. Returns steppers, and which arrivals each has read."""

    def _start(
        self, stepper: Stepper, ids: Int64[Tensor, "rows len"], lengths: Int64[Tensor, " rows"]
    ) -> Parts:
        """Start a stepper, in parts if that is possible."""
        if can_join(self.strategy) and isinstance(stepper, ModelStepper | PromptStepper):
            yield from stepper.starts(ids, lengths)
        else:
            stepper.start(ids, lengths)

    def _answer(self, arrival: Arrival, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """The hypotheses as they are returned."""
        return hypotheses


class RunningTranslations(RunningBatch):
    """A running batch of sources; several models are an ensemble."""

    def __init__(
        self,
        strategy: Search,
        models: SequenceToSequence | Sequence[SequenceToSequence],
        *,
        pad_id: int = 0,
        eos_id: int = 3,
        arrival_tokens: int = ARRIVAL_TOKENS,
        alternatives: int = 0,
    ) -> None:
        self.models = [models] if isinstance(models, SequenceToSequence) else list(models)
        if not self.models:
            raise ConfigError("an ensemble needs at least one model")
        super().__init__(strategy, self.models, arrival_tokens=arrival_tokens, alternatives=alternatives)
        self._pad_id, self._eos_id = pad_id, eos_id
        self._most, self._shortest = max_positions(self.models), min_source_length(self.models)

    def add(
        self,
        sources: Sequence[Sequence[int]],
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        first_index: int = 0,
    ) -> list[int]:
        """Queue these sources, ids without eos; a ticket for each. Samples depend on their places.

        Raises:
            DataError: one is longer than the model can read; then none is queued.
            ValueError: there are more or fewer prefixes than sources; then none is queued.
        """
        prefixes = [()] * len(sources) if prefixes is None else prefixes
        requests = [
            Request(
                src_len=len(source),
                prefix=tuple(prefix),
                index=index,
                most=self._most - 1,
                source=tuple(source),
            )
            for index, (source, prefix) in enumerate(zip(sources, prefixes, strict=True), start=first_index)
        ]
        refuse_long(requests, self._most)
        return self._queue((request, (*(request.source or ()), self._eos_id)) for request in requests)

    def _read(self, arrivals: Sequence[Arrival]) -> Reading:
        stepper = stepper_of(self.models)
        sources = [each.ids for each in arrivals]
        given = padded(sources, self._pad_id, least=self._shortest, most=self._most)
        yield from self._start(stepper, *given)
        return [(stepper, arrivals)]


class RunningContinuations(RunningBatch):
    """A running batch of prompts, of any lengths, that a decoder-only model continues."""

    def __init__(
        self,
        strategy: Search,
        model: DecoderOnly,
        *,
        max_context: int | None = None,
        arrival_tokens: int = ARRIVAL_TOKENS,
        alternatives: int = 0,
    ) -> None:
        """`max_context`: as in `continue_all`."""
        super().__init__(strategy, [model], arrival_tokens=arrival_tokens, alternatives=alternatives)
        self.model, self.max_context = model, max_context

    def add(self, prompts: Sequence[Prompt], *, max_new_tokens: int) -> list[int]:
        """Queue these prompts, each for at most `max_new_tokens` tokens; returns a ticket for each."""
        return self._queue((each.request(max_new_tokens), each.context[: each.read]) for each in prompts)

    def _read(self, arrivals: Sequence[Arrival]) -> Reading:
        read: list[tuple[Stepper, Sequence[Arrival]]] = []
        for length in sorted({len(each.ids) for each in arrivals}):  # prefilled together: see `filled`
            group = [each for each in arrivals if len(each.ids) == length]
            stepper = prompt_stepper(self.model, self.max_context)
            ids = torch.tensor([each.ids for each in group], dtype=torch.int64).view(len(group), length)
            yield from self._start(stepper, ids, torch.full((len(group),), length))
            read.append((stepper, group))
        return read

    def _answer(self, arrival: Arrival, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        return [without_prompt(each, arrival.request.uncounted) for each in hypotheses]
