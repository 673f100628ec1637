"""A least-recently-used cache of looks; a dropped look is computed again from its request.

A server may run for weeks, so its memory is bounded in bytes.
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
from regard.verbs.views.request import LookRequest

MAX_LOOKS = 8
MAX_BYTES = 512 << 20  # of all looks together; of a single larger look only the summary stays
MAX_REQUEST_BYTES = 8 << 20  # of requests, from which dropped looks are computed again


class HttpError(RegardError):
    """An error that is sent as an HTTP response with this status."""

    def __init__(self, status: HTTPStatus, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.status = status


class LookStore:
    """Looks of one model by id; `first` is the request that the server was started with, if any."""

    def __init__(self, looker: Looker, first: LookRequest | None = None) -> None:
        self._looker, self._first = looker, first
        self._first_id: str | None = None
        self._looks: OrderedDict[str, Look] = OrderedDict()  # least recently used first
        self._requests: dict[str, LookRequest] = {}  # oldest first
        self._request_bytes: dict[str, int] = {}
        self._lock, self._first_lock = threading.Lock(), threading.Lock()

    def first(self) -> dict[str, Any] | None:
        """Id and summary of the look that the server was started with; None without a text."""
        if self._first is None:
            return None
        with self._first_lock:  # two requests at once get one look
            if self._first_id is None:
                self._first_id = secrets.token_urlsafe(8)
                self._add(self._first_id, self._first)
        return {"id": self._first_id, "summary": self.get(self._first_id, "summary")}

    def create(self, body: Any) -> dict[str, Any]:
        """Id and summary of a new look for the JSON of a request."""
        look_id = secrets.token_urlsafe(8)
        return {"id": look_id, "summary": self._add(look_id, self._request(body)).summary}

    def get(self, look_id: str, path: str) -> Resource:
        """A resource of a look.

        Raises:
            HttpError: the look is gone, or there is no such resource.
        """
        with self._lock:
            look, request = self._looks.get(look_id), self._requests.get(look_id)
            if look is not None:
                self._looks.move_to_end(look_id)
        if look is None and request is not None:
            look = self._add(look_id, request)
        if look is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "this look is no longer kept", "send the request again")
        if path not in look.paths():
            raise HttpError(
                HTTPStatus.NOT_FOUND, f"this look has no {path[:100]!r}", "see resources in its summary"
            )
        found = look.get(path)
        with self._lock:
            self._drop_old_looks()
        return found

    def stream(self, body: Any) -> Iterator[dict[str, Any]]:
        """The tokens of the greedy answer to a request, as they are generated."""
        return (token.to_dict() for token in self._looker.stream(self._request(body)))

    def _request(self, body: Any) -> LookRequest:
        if not isinstance(body, dict) or not all(isinstance(name, str) for name in body):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object", 'send {"text": "..."}')
        return LookRequest.from_json(body)

    def _add(self, look_id: str, request: LookRequest) -> Look:
        look = self._looker(request)
        with self._lock:
            self._looks[look_id] = look
            self._requests[look_id], self._request_bytes[look_id] = request, memory_size(asdict(request))
            self._drop_old_looks()
            self._drop_old_requests()
        return look

    def _drop_old_requests(self) -> None:
        """Drop the oldest requests, except the newest one and the one that the server was started with."""
        total = sum(self._request_bytes.values())
        for look_id in [*self._requests][:-1] if total > MAX_REQUEST_BYTES else []:
            if total > MAX_REQUEST_BYTES and look_id != self._first_id:
                total -= self._request_bytes.pop(look_id)
                del self._requests[look_id]

    def _drop_old_looks(self) -> None:
        """Drop the least recently used looks until the others are within both limits."""
        total = sum(look.bytes_held for look in self._looks.values())
        while len(self._looks) > MAX_LOOKS or (total > MAX_BYTES and len(self._looks) > 1):
            _, removed = self._looks.popitem(last=False)
            total -= removed.bytes_held
        if total > MAX_BYTES:
            for look in self._looks.values():
                look.forget()
