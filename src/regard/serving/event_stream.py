"""Server-sent events: an answer in parts."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.types import Receive, Scope, Send

DONE = b"data: [DONE]\n\n"


class EventStream:
    """A response that sends each item as an event. The items notice a client that leaves."""

    def __init__(self, events: AsyncIterator[bytes], headers: dict[str, str] | None = None) -> None:
        self.events = events
        self.status_code = 200
        self.headers = headers or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "x-accel-buffering": "no",
            **self.headers,
        }
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        async for event in self.events:
            await send(_part(event, more=True))
        await send(_part(b"", more=False))


def event(content: bytes) -> bytes:
    """An event with this data, which has no line feeds."""
    return b"data: " + content + b"\n\n"


def _part(content: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}
