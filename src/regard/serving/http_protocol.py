"""uvicorn's HTTP protocol, with limits on a client's time and on the number of clients.

uvicorn has none of these: a client that sends a byte a minute holds its connection for ever, and so does one
that does not read its answer.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serving.http_error import HttpProblem
from regard.serving.limits import ServerLimits

ErrorBody = Callable[[str, HttpProblem], bytes]  # of a path and a problem
FIRST_LINE = re.compile(rb"[A-Z]{1,10} (/[\x21-\x7e]{0,200})")  # method and target
GRACE = 5.0  # seconds after which a connection is closed that the application should have answered


def protocol_of(limits: ServerLimits, error_body: ErrorBody) -> type[H11Protocol]:
    """The protocol class with these limits; uvicorn makes an instance for each connection.

    `error_body`: what is sent for a problem, in the shape that the clients of a path understand.
    """
    values = {"limits": limits, "error_body": staticmethod(error_body)}
    return type("LimitedProtocol", (_LimitedProtocol,), values)


class _LimitedProtocol(H11Protocol):
    limits: ServerLimits
    error_body: ErrorBody

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._waits_for = ""  # "headers", "body", or nothing
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._path = "/"  # of the request whose headers come, if its first line has come

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "too many connections", "try again later")
            return
        self._wait_for("headers")

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE and (line := FIRST_LINE.match(data)):
            self._path = line[1].decode("ascii").partition("?")[0]
        super().data_received(data)
        if self.transport.is_closing():
            return
        state = self.conn.their_state
        if state is h11.IDLE:
            self._wait_for("headers")
        elif state is h11.SEND_BODY:
            self._wait_for("body")
        else:
            self._wait_for("")

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for("")
        self._stop_write_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._abort_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._abort_later()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._abort_later()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "the request is not HTTP, or its headers are too long", "send fewer headers")

    def _abort_later(self) -> None:
        """Close the connection if the client does not read what was sent."""
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def _stop_write_timer(self) -> None:
        if self._write_timer:
            self._write_timer.cancel()
            self._write_timer = None

    def _wait_for(self, what: str) -> None:
        """Close the connection if `what` does not arrive in its time from now."""
        if what == self._waits_for:
            return
        self._waits_for = what
        if self._timer:
            self._timer.cancel()
        seconds = {"headers": self.limits.header_seconds, "body": self.limits.body_seconds + GRACE}
        self._timer = self.loop.call_later(seconds[what], self._too_slow) if what else None

    def _too_slow(self) -> None:
        if self._waits_for == "headers":
            self._refuse(408, "the headers took too long", "send the request at once")
        elif not self.transport.is_closing():
            self.transport.abort()

    def _refuse(self, status: int, message: str, hint: str) -> None:
        """Send an error without the application, and close the connection."""
        if self.transport.is_closing():
            return
        content = self.error_body(self._path, HttpProblem(status, message, hint))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        try:
            response = h11.Response(status_code=status, headers=headers)
            parts = [
                self.conn.send(response),
                self.conn.send(h11.Data(data=content)),
                self.conn.send(h11.EndOfMessage()),
            ]
            self.transport.write(b"".join(part for part in parts if part))
        except h11.LocalProtocolError:
            pass  # an answer has begun already
        self.transport.close()
        self._abort_later()
