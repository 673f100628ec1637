"""The parts of a request: its pieces by their settings, each part a job of its own.

A request has one part, unless the translations of some pieces must contain texts that others need not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.job import Job
from regard.serving.scheduler import failure_of
from regard.verbs.generation.glossary import RequiredText, missing_text
from regard.verbs.serve import ServedModel, TranslationAnswerer
from regard.verbs.shared.answerer import Answerer

AT_ONCE = 16  # parts of a request that are in the queue, which other requests need too
RequiredTexts = Callable[[str], tuple[RequiredText, ...]]  # a piece -> what its translation must contain


@dataclass(frozen=True, kw_only=True)
class RequestPart:
    """Pieces of a request that have the same settings, and their places in it.

    `required`: what the translation of each of them must contain.
    """

    answerer: Answerer[Any, Any]
    pieces: list[Any]
    places: list[int]
    required: tuple[RequiredText, ...] = ()


def parts_of(
    model: ServedModel, answerer: Answerer[Any, Any], pieces: Sequence[Any], required: RequiredTexts | None
) -> list[RequestPart]:
    """The parts of a request; `required` is None if no translation must contain a text.

    Raises:
        ConfigError: the model cannot output a required text.
    """
    if not pieces:
        return []
    if required is None:
        return [RequestPart(answerer=answerer, pieces=list(pieces), places=list(range(len(pieces))))]
    assert isinstance(answerer, TranslationAnswerer)
    places: dict[tuple[RequiredText, ...], list[int]] = {}
    for place, piece in enumerate(pieces):
        places.setdefault(required(piece), []).append(place)
    return [
        RequestPart(
            answerer=model.answerer(answerer.requiring(texts)),
            pieces=[pieces[place] for place in of_texts],
            places=of_texts,
            required=texts,
        )
        for texts, of_texts in places.items()
    ]


def refuse_missing(parts: Sequence[RequestPart], found: Sequence[Any]) -> None:
    """Raise an HttpProblem if a translation lacks a required text: a search can end without it."""
    for part in parts:
        for place in part.places if part.required else ():
            text = missing_text(found[place].text, part.required)
            if text is not None:
                raise HttpProblem(
                    400,
                    f"the model found no translation of a sentence with {text!r}",
                    "do not require this text",
                    code="model_cannot",
                )


class PartJob:
    """A part of a request as a job that can be awaited; its answers are written into `found`."""

    def __init__(self, engine: Engine, part: RequestPart, found: list[Any], deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self._runner = engine.runner
        self._done: asyncio.Future[None] = loop.create_future()
        self.job = Job(
            answerer=part.answerer,
            pieces=part.pieces,
            places=part.places,
            answered=found.__setitem__,
            finished=lambda error: call_in(loop, _resolve, self._done, error),
            deadline=deadline,
        )

    async def run(self) -> None:
        """Submit the job, and wait until it is answered.

        Raises:
            RegardError: the queue is full, the deadline has passed, or the model failed.
        """
        if not self.job.cancelled:
            self._runner.submit(self.job)
            await self._done

    def cancel(self) -> None:
        self._runner.cancel(self.job)


async def all_of(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run all calls, AT_ONCE at a time. The first error cancels the others and is raised."""
    if len(calls) == 1:
        await calls[0]()
        return
    room = asyncio.Semaphore(AT_ONCE)

    async def run(call: Callable[[], Awaitable[None]]) -> None:
        async with room:
            await call()

    tasks = [asyncio.ensure_future(run(call)) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def call_in(loop: asyncio.AbstractEventLoop, call: Any, *arguments: Any) -> None:
    """Call a function in the event loop from any thread; does nothing if the loop is closed."""
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(call, *arguments)


def _resolve(done: "asyncio.Future[None]", error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(failure_of(error))
        done.exception()  # nobody may wait for it any more
