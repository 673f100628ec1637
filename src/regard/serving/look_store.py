"""The looks that a server keeps: a few of them, the newest; older ones are made anew when asked for.

A server may run for weeks: what it holds is bounded by bytes, whatever is asked of it.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from regard.errors import RegardError
from regard.verbs.look import Looker
from regard.verbs.views.look import Look
from regard.verbs.views.memory_size import memory_size
from regard.verbs.views.recorded_pass import Resource
from regard.verbs.views.request import Request

KEPT = 8
MOST_BYTES = 512 << 20  # of all that are kept; where the last one has more, its summary is kept
REMEMBERED_BYTES = 8 << 20  # of requests, by which a look that was not kept is made once more


class Refused(RegardError):
    """A request that is answered with another status than 200."""

    def __init__(self, status: HTTPStatus, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.status = status


class LookStore:
    """Looks of one model by their ids, and the first one, which was asked for before the page was open."""

    def __init__(self, looker: Looker, first: Request | None = None) -> None:
        self._looker, self._first = looker, first
        self._first_id: str | None = None
        self._kept: OrderedDict[str, Look] = OrderedDict()
        self._asked: dict[str, Request] = {}  # the oldest first
        self._asked_bytes: dict[str, int] = {}
        self._lock, self._beginning = threading.Lock(), threading.Lock()

    def first(self) -> dict[str, Any] | None:
        """The look that the server was started with; None where no text was given."""
        if self._first is None:
            return None
        with self._beginning:  # two who ask at once are shown one look
            if self._first_id is None:
                self._first_id = secrets.token_urlsafe(8)
                self._make(self._first_id, self._first)
        return {"id": self._first_id, "summary": self.get(self._first_id, "summary")}

    def make(self, body: Any) -> dict[str, Any]:
        """A new look."""
        number = secrets.token_urlsafe(8)
        return {"id": number, "summary": self._make(number, self._request(body)).summary}

    def get(self, number: str, path: str) -> Resource:
        """A resource of a look.

        Raises:
            Refused: there is no such look any more, or no such resource.
        """
        with self._lock:
            look, request = self._kept.get(number), self._asked.get(number)
            if look is not None:
                self._kept.move_to_end(number)
        if look is None and request is not None:
            look = self._make(number, request)
        if look is None:
            raise Refused(HTTPStatus.NOT_FOUND, "this look is no longer kept", "look at the text again")
        if path not in look.paths():
            raise Refused(
                HTTPStatus.NOT_FOUND, f"this look has no {path[:100]!r}", "see resources in its summary"
            )
        found = look.get(path)
        with self._lock:
            self._trim()
        return found

    def stream(self, body: Any) -> Iterator[dict[str, Any]]:
        """The likeliest answer as it grows."""
        return (said.to_dict() for said in self._looker.stream(self._request(body)))

    def _request(self, body: Any) -> Request:
        if not isinstance(body, dict) or not all(isinstance(name, str) for name in body):
            raise Refused(HTTPStatus.BAD_REQUEST, "the body is no JSON object", 'send {"text": "..."}')
        return Request.from_json(body)

    def _make(self, number: str, request: Request) -> Look:
        look = self._looker(request)
        with self._lock:
            self._kept[number] = look
            self._asked[number], self._asked_bytes[number] = request, memory_size(asdict(request))
            self._trim()
            self._forget_requests()
        return look

    def _forget_requests(self) -> None:
        """Let the oldest go; that of the newest look, and the first, which any new page shows, stay."""
        held = sum(self._asked_bytes.values())
        for number in [*self._asked][:-1] if held > REMEMBERED_BYTES else []:
            if held > REMEMBERED_BYTES and number != self._first_id:
                held -= self._asked_bytes.pop(number)
                del self._asked[number]

    def _trim(self) -> None:
        """Let the oldest go until the others are few and small enough."""
        held = sum(look.bytes_held for look in self._kept.values())
        while len(self._kept) > KEPT or (held > MOST_BYTES and len(self._kept) > 1):
            _, gone = self._kept.popitem(last=False)
            held -= gone.bytes_held
        if held > MOST_BYTES:
            for look in self._kept.values():
                look.forget()
