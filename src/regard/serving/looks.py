"""The looks that a server keeps: a few of them, the newest; older ones are made anew when asked for."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from regard.errors import RegardError
from regard.verbs.look import Looker
from regard.verbs.looking.look import Look
from regard.verbs.looking.request import Request
from regard.verbs.looking.watched import Resource

KEPT = 8


class Refused(RegardError):
    """A request that is answered with another status than 200."""

    def __init__(self, status: HTTPStatus, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.status = status


class Looks:
    """Looks of one model by their ids, and the first one, which was asked for before the page was open."""

    def __init__(self, looker: Looker, first: Request | None = None) -> None:
        self._looker, self._first = looker, first
        self._first_id: str | None = None
        self._kept: OrderedDict[str, Look] = OrderedDict()
        self._lock = threading.Lock()

    def first(self) -> dict[str, Any] | None:
        """The look that the server was started with; None where no text was given."""
        if self._first is None:
            return None
        with self._lock:
            known = self._first_id
        if known is None or known not in self._kept:
            known, _ = self._made(self._first)
            with self._lock:
                self._first_id = known
        return {"id": known, "summary": self.get(known, "summary")}

    def make(self, body: Any) -> dict[str, Any]:
        """A new look."""
        number, look = self._made(self._request(body))
        return {"id": number, "summary": look.summary}

    def get(self, number: str, path: str) -> Resource:
        """A resource of a look.

        Raises:
            Refused: there is no such look any more, or no such resource.
        """
        with self._lock:
            look = self._kept.get(number)
            if look is not None:
                self._kept.move_to_end(number)
        if look is None:
            raise Refused(HTTPStatus.NOT_FOUND, "this look is no longer kept", "look at the text again")
        if path not in look.paths():
            raise Refused(
                HTTPStatus.NOT_FOUND, f"this look has no {path[:100]!r}", "see resources in its summary"
            )
        return look.get(path)

    def stream(self, body: Any) -> Iterator[dict[str, Any]]:
        """The likeliest answer as it grows."""
        return (said.to_dict() for said in self._looker.stream(self._request(body)))

    def _request(self, body: Any) -> Request:
        if not isinstance(body, dict) or not all(isinstance(name, str) for name in body):
            raise Refused(HTTPStatus.BAD_REQUEST, "the body is no JSON object", 'send {"text": "..."}')
        return Request.from_json(body)

    def _made(self, request: Request) -> tuple[str, Look]:
        look = self._looker(request)
        number = secrets.token_urlsafe(8)
        with self._lock:
            self._kept[number] = look
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return number, look
