"""The looks of the models of a server: a process for each, begun at its first look."""

import asyncio
import http.client
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from regard import console
from regard.errors import RegardError
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.look_process import LookProcess
from regard.serving.models import Slot
from regard.verbs.shared.runtime import Runtime

AT_ONCE = 8  # requests; a model computes one look at a time
PART_BYTES = 65_536


@dataclass(frozen=True, kw_only=True)
class LookAnswer:
    """An answer of the look server: its whole content, or parts that come as they are computed.

    `close` must be called when the parts are not needed any more; another look may be computed then.
    """

    status: int
    content_type: str
    content: bytes | Iterator[bytes]
    close: Callable[[], None] = lambda: None


class Looks:
    """Passes requests on to the process with the looks of a model."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._processes: dict[str, tuple[Engine | None, LookProcess]] = {}
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by model
        self._now = 0

    async def answer(self, slot: Slot, method: str, path: str, body: bytes, seconds: float) -> LookAnswer:
        """The answer to a request for a path of the page of this model.

        Raises:
            HttpProblem: too many requests at once, or the process does not begin or answer.
        """
        if self._now >= AT_ONCE:
            raise HttpProblem(
                429, "too many looks are computed", "try again", code="overloaded", retry_after=2
            )
        self._now += 1
        try:
            process = await self._process(slot)
            response = await asyncio.to_thread(process.open, method, path, body, seconds)
            kind = response.getheader("Content-Type", "application/json")
            content = None if response.chunked else await asyncio.to_thread(response.read)
        except (OSError, http.client.HTTPException) as error:
            self._now -= 1
            console.warn(f"looks of {slot.name}: {type(error).__name__}: {error}")
            raise HttpProblem(
                503, "the look was not answered", "try again", code="unavailable", retry_after=2
            ) from None
        except BaseException:
            self._now -= 1
            raise
        if content is None:
            return LookAnswer(
                status=response.status, content_type=kind, content=_parts(response), close=self._ended
            )
        self._now -= 1
        return LookAnswer(status=response.status, content_type=kind, content=content)

    def _ended(self) -> None:
        self._now -= 1

    def close(self) -> None:
        """End all processes."""
        for _, process in self._processes.values():
            process.close()
        self._processes.clear()

    async def _process(self, slot: Slot) -> LookProcess:
        """The process of a model; another one if the model was loaded again since, or it has died."""
        async with self._starting[slot.name]:
            engine, process = self._processes.get(slot.name, (None, None))
            if process is not None and engine is slot.engine and process.alive:
                return process
            if process is not None:
                del self._processes[slot.name]
                await asyncio.to_thread(process.close)
            try:
                begun = await asyncio.to_thread(LookProcess, slot.path, self._runtime)
            except RegardError as error:
                console.warn(f"looks of {slot.name}: {error}")
                raise HttpProblem(
                    503,
                    f"there are no looks of {slot.name}",
                    "see the server's log",
                    code="model_unavailable",
                ) from None
            self._processes[slot.name] = slot.engine, begun
            return begun


def _parts(response: http.client.HTTPResponse) -> Iterator[bytes]:
    with closing(response), suppress(OSError, http.client.HTTPException):  # the page sees that it broke off
        while part := response.read1(PART_BYTES):
            yield part
