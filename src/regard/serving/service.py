"""The typed core that all dialects call: texts in, answers out, by the scheduler of a model."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.serving.access_log import AccessLog
from regard.serving.engine import Engine
from regard.serving.glossaries import GlossaryStore
from regard.serving.http_error import HttpProblem
from regard.serving.keys import ApiKeys
from regard.serving.limits import ServerLimits
from regard.serving.looks import Looks
from regard.serving.metrics import Metrics
from regard.serving.models import ModelStore, Slot
from regard.serving.request import ServedRequest
from regard.serving.request_parts import (
    PartJob,
    RequestPart,
    RequiredTexts,
    all_of,
    call_in,
    parts_of,
    refuse_missing,
)
from regard.serving.scheduler import Closed, DeadlinePassed, Job, failure_of
from regard.verbs.generation.scored_tokens import TextWithTokens, scored_tokens
from regard.verbs.serve import ServedModel
from regard.verbs.shared.answerer import Answerer, AnswerSettings, Recording, Task

T = TypeVar("T")
LONG = 5000  # characters, which take up to 30 ms to split into sentences
READERS = 2  # files that are decoded at a time
GRACE = 5.0  # seconds after its deadline in which a request should have been refused
TRIES = 3  # of a request whose model is replaced while it arrives


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The answer to each text of a request, in order; and the model that gave them."""

    answers: list[Any]
    engine: Engine
    slot: Slot


@dataclass(kw_only=True)
class Service:
    """What a server has: models, limits, keys, metrics, a log. `draining`: it takes no new requests.

    `loaded`: the models that are loaded at the start are. `looks`: None if it has none.
    """

    models: ModelStore
    limits: ServerLimits
    keys: ApiKeys
    metrics: Metrics
    log: AccessLog
    looks: Looks | None = None
    glossaries: GlossaryStore = field(default_factory=GlossaryStore)
    public: bool = False  # reachable from other machines
    origins: frozenset[str] = frozenset()  # of pages of other sites that may ask
    draining: bool = False
    loaded: bool = False
    in_flight: int = field(default=0)
    readers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS))

    @property
    def ready(self) -> bool:
        """True if the server has started and is not ending."""
        return self.loaded and not self.draining

    def slot(self, name: str | None, task: Task | None = None) -> Slot:
        """The model of this name; without a name the first loaded one that has the task, or the default."""
        if name is None and task is not None:
            for slot in self.models.slots.values():
                if slot.engine is not None and task in slot.engine.model.tasks:
                    return slot
        return self.models.slot(name)

    async def answer(
        self,
        request: ServedRequest,
        slot: Slot,
        settings: AnswerSettings,
        texts: Sequence[Any],
        required: RequiredTexts | None = None,
    ) -> Answered:
        """The answers to all texts. `required`: what the translation of each piece must have.

        Raises:
            HttpProblem, RegardError: the request cannot be answered. ClientGone: nobody waits for the answer.
        """
        self.check_texts(texts)
        request.note(model=slot.name, texts=texts)
        for _ in range(TRIES):
            engine = await self.models.engine(slot)
            answerer = engine.model.answerer(settings)
            work = _Work(texts, await _pieces(answerer, texts))
            parts = await _parts(engine.model, answerer, work.flat, required)
            try:
                found = await self._computed(request, engine, parts, len(work.flat))
                return Answered(answers=work.joined(answerer, found), engine=engine, slot=slot)
            except Closed:
                continue
        raise Closed

    async def parts(
        self, request: ServedRequest, slot: Slot, settings: AnswerSettings, text: str
    ) -> AsyncIterator[str]:
        """The answer to a text, in parts as they are known.

        Errors appear before the first part.
        """
        self.check_texts([text])
        request.note(model=slot.name, texts=[text])
        for _ in range(TRIES):
            engine = await self.models.engine(slot)
            answerer = engine.model.answerer(settings)
            pieces = await _pieces(answerer, [text])
            parts = (
                self._sentences(request, engine, answerer, text, pieces[0])
                if settings.task == "translate"
                else self._tokens(request, engine, answerer, text)
            )
            try:
                begun = await _begun(parts)
            except Closed:
                continue
            request.first_part_seconds = time.monotonic() - request.begun
            self.metrics.first_part_seconds.labels(slot.name).observe(request.first_part_seconds)
            return begun
        raise Closed

    async def read(self, request: ServedRequest, reading: Callable[..., T], *arguments: Any) -> T:
        """What an uploaded file gives, read in a thread; few requests at a time do, for it needs memory."""
        deadline = request.deadline(self.limits)
        async with self.readers:
            return await _in_time(request, deadline, asyncio.to_thread(reading, *arguments))

    def check_texts(self, texts: Sequence[Any]) -> None:
        """Raise an HttpProblem if a request has more texts or characters than it may, or a NUL in one.

        No text of training data has a NUL (`data/corpus.py`), so a model can only answer it with nonsense.
        """
        if len(texts) > self.limits.texts:
            raise HttpProblem(
                413,
                f"the request has {len(texts):,} texts, but may have {self.limits.texts}",
                "send several requests",
            )
        characters = sum(map(length_of, texts))
        if characters > self.limits.characters:
            raise HttpProblem(
                413,
                f"the request has {characters:,} characters, but may have {self.limits.characters:,}",
                "send several requests",
            )
        for text in texts:
            for part in (text,) if isinstance(text, str) else text if isinstance(text, tuple) else ():
                if (place := part.find("\0")) >= 0:
                    raise HttpProblem(
                        400, f"character {place + 1} of a text is a NUL", "leave it out", code="invalid_value"
                    )

    async def _computed(
        self, request: ServedRequest, engine: Engine, parts: Sequence[RequestPart], count: int
    ) -> list[Any]:
        """The answers to all pieces of a request, of which each part has other settings."""
        found: list[Any] = [None] * count
        begun, deadline = time.monotonic(), request.deadline(self.limits)
        work = [PartJob(engine, part, found, deadline) for part in parts]
        try:
            await _in_time(request, deadline, all_of([each.run for each in work]))
        finally:
            for each in work:
                each.cancel()
            self._note_queue(request, begun, [each.job for each in work])
        refuse_missing(parts, found)
        return found

    def _note_queue(self, request: ServedRequest, begun: float, jobs: Sequence[Job]) -> None:
        """Report how long a request has waited until the first of its jobs was started."""
        started = [each.started for each in jobs if each.started is not None]
        if started:
            request.queue_seconds = min(started) - begun
            self.metrics.queue_seconds.labels(request.model).observe(request.queue_seconds)

    async def _tokens(
        self, request: ServedRequest, engine: Engine, answerer: Answerer[Any, Any], text: str
    ) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        answers: list[Any] = []
        job = Job(
            answerer=answerer,
            pieces=[text],
            in_parts=True,
            answered=lambda place, answer: answers.append(answer),
            part=lambda part: call_in(loop, queue.put_nowait, part),
            finished=lambda error: call_in(loop, queue.put_nowait, error),
            deadline=request.deadline(self.limits),
        )
        begun = time.monotonic()
        engine.runner.submit(job)
        try:
            while isinstance(part := await _in_time(request, job.deadline, queue.get()), str):
                yield part
            if part is not None:
                raise failure_of(part)
            _note_streamed(request, [each.continuations[0] for each in answers])
        finally:
            self._note_queue(request, begun, [job])
            engine.runner.cancel(job)

    async def _sentences(
        self,
        request: ServedRequest,
        engine: Engine,
        answerer: Answerer[Any, Any],
        text: str,
        pieces: Sequence[Any],
    ) -> AsyncIterator[str]:
        """The translation of a text, a sentence at a time and in order."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[int, Any] | Exception | None] = asyncio.Queue()
        job = Job(
            answerer=answerer,
            pieces=pieces,
            answered=lambda place, answer: call_in(loop, queue.put_nowait, (place, answer)),
            finished=lambda error: call_in(loop, queue.put_nowait, error),
            deadline=request.deadline(self.limits),
        )
        begun = time.monotonic()
        engine.runner.submit(job)
        found: dict[int, Any] = {}
        known, yielded, sent = 0, 0, ""
        try:
            while isinstance(item := await _in_time(request, job.deadline, queue.get()), tuple):
                found[item[0]] = item[1]
                while known in found:
                    known += 1
                answers = [found[place] for place in range(known)]
                whole = answerer.joined(text, pieces[:known], answers).text if answers else ""
                if known > yielded:
                    part = _part(answerer, whole[len(sent) :], answers[yielded:])
                    yielded, sent = known, max(whole, sent, key=len)
                    if part or isinstance(part, TextWithTokens):
                        yield part
            if item is not None:
                raise failure_of(item)
            _note_streamed(request, [each.candidates[0] for each in found.values()])
        finally:
            self._note_queue(request, begun, [job])
            engine.runner.cancel(job)


def _note_streamed(request: ServedRequest, candidates: Sequence[Any]) -> None:
    """Record what was sent in parts: its tokens for the log, and how it ended."""
    request.streamed = candidates
    request.output_tokens = sum(len(each.tokens) for each in candidates)


def _part(answerer: Answerer[Any, Any], text: str, answers: Sequence[Any]) -> str:
    """A part of a translation; if that was asked for, with the tokens of these answers."""
    if answerer.settings.alternatives is None:
        return text
    return TextWithTokens(text, [token for each in answers for token in scored_tokens(each.candidates[0])])


async def _in_time(request: ServedRequest, deadline: float, awaited: Awaitable[T]) -> T:
    """What is awaited, unless the client leaves, or a worker that does not answer any more lets time pass."""
    try:
        async with asyncio.timeout(max(0.0, deadline - time.monotonic()) + GRACE):
            return await request.or_gone(awaited)
    except TimeoutError:
        raise DeadlinePassed from None


async def _pieces(answerer: Answerer[Any, Any], texts: Sequence[Any]) -> list[list[Any]]:
    """The pieces of each text; of long texts in a thread, so that other requests are answered meanwhile."""
    if sum(map(length_of, texts)) < LONG:
        return answerer.pieces(texts)
    return await asyncio.to_thread(answerer.pieces, texts)


async def _parts(
    model: ServedModel, answerer: Answerer[Any, Any], pieces: Sequence[Any], required: RequiredTexts | None
) -> list[RequestPart]:
    """The parts of a request; in a thread where each piece is searched for what it requires."""
    if required is None:
        return parts_of(model, answerer, pieces, None)
    return await asyncio.to_thread(parts_of, model, answerer, pieces, required)


class _Work:
    """The texts of a request, and their pieces one after the other."""

    def __init__(self, texts: Sequence[Any], pieces: Sequence[Sequence[Any]]) -> None:
        self.texts, self.pieces = texts, pieces
        self.flat = [piece for each in pieces for piece in each]

    def joined(self, answerer: Answerer[Any, Any], found: Sequence[Any]) -> list[Any]:
        """The answer to each text, from those to all pieces."""
        rest = iter(found)
        return [
            answerer.joined(text, pieces, [next(rest) for _ in pieces])
            for text, pieces in zip(self.texts, self.pieces, strict=True)
        ]


async def _begun(parts: AsyncIterator[str]) -> AsyncIterator[str]:
    """The parts, after the first of them is known, so that errors appear before an answer begins."""
    first = await anext(parts, None)

    async def all_parts() -> AsyncIterator[str]:
        try:
            if first is not None:
                yield first
                async for part in parts:
                    yield part
        finally:
            await parts.aclose()  # type: ignore[attr-defined]  # a generator

    return all_parts()


def length_of(text: Any) -> int:
    """The characters of a text, or of a pair of texts; a recording has none."""
    if isinstance(text, Recording):
        return 0
    return len(text) if isinstance(text, str) else sum(map(len, text))
