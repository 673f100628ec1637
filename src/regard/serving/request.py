"""A request on its way through the server: its id, its body, whether its client still waits."""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from email.message import Message
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message as ServerMessage
from starlette.types import Receive, Scope

from regard.serving.http_error import HttpProblem
from regard.serving.limits import ServerLimits

Value = TypeVar("Value")
REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
MAX_FORM_FIELDS = 200
UTF_8 = ("utf-8", "utf8", "us-ascii")  # names of charsets that are read as UTF-8, of which ASCII is a part


class ClientGone(Exception):
    """The client closed its connection before it had the answer."""


class ServedRequest:
    """A request, and the facts about it that the access log and the metrics report."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.http = Request(scope, receive)
        given = self.http.headers.get("x-request-id", "")
        self.id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        self.begun = time.monotonic()
        self.model = ""
        self.texts: Sequence[Any] = ()
        self.output_tokens = 0
        self.streamed: Sequence[Any] = ()  # the answers, or the sentences of one, that came in parts
        self.queue_seconds: float | None = None
        self.first_part_seconds: float | None = None  # of a streamed answer
        self._receive = receive

    def note(self, *, model: str, texts: Sequence[Any]) -> None:
        """Record the model and the texts of the request for the log."""
        self.model, self.texts = model, texts

    def content_type(self) -> str:
        """The media type of the body, such as "application/json"; empty without the header Content-Type.

        Raises:
            HttpProblem: the body is compressed, or has another charset than UTF-8.
        """
        encoding = self.http.headers.get("content-encoding", "").strip()
        if encoding.lower() not in ("", "identity", *UTF_8):  # some clients put the charset here
            raise HttpProblem(
                415,
                f"the Content-Encoding {encoding[:20]!r} is not supported",
                "send the body as it is",
                code="unsupported_encoding",
            )
        header = Message()
        header["content-type"] = given = self.http.headers.get("content-type", "")
        if (charset := header.get_content_charset("utf-8")) not in UTF_8:
            raise HttpProblem(
                415,
                f"the charset {charset[:20]!r} is not supported",
                "send UTF-8",
                code="unsupported_charset",
            )
        return header.get_content_type() if given else ""

    def deadline(self, limits: ServerLimits) -> float:
        """When the answer must be there, by `time.monotonic()`; raises as `timeout_seconds` does."""
        return self.begun + self.timeout_seconds(limits)

    def timeout_seconds(self, limits: ServerLimits) -> float:
        """How long the answer may take: the header X-Timeout, or the server's limit if that is less.

        Raises:
            HttpProblem: the header is not a number of seconds.
        """
        given = self.http.headers.get("x-timeout")
        if given is None:
            return limits.answer_seconds
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", given, re.ASCII):
            raise HttpProblem(
                400, "X-Timeout is not a number of seconds", "X-Timeout: 10", parameter="X-Timeout"
            )
        return min(float(given), limits.answer_seconds)

    async def body(self, limits: ServerLimits) -> bytes:
        """The whole body.

        Raises:
            HttpProblem: it is too large, or takes too long.
            ClientGone: the client left before its end.
        """
        parts, size = [], 0
        async with _in_time(limits):
            async for part in self.http.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise _too_large(limits.body_bytes)
                parts.append(part)
        return b"".join(parts)

    async def url_encoded_form(self, limits: ServerLimits) -> dict[str, list[str]]:
        """The values of each field of a form without files, application/x-www-form-urlencoded in UTF-8.

        Raises:
            HttpProblem: it is not such a form, too large, or takes too long.
            ClientGone: the client left before its end.
        """
        body = await self.body(limits)
        try:
            text = body.decode("utf-8")
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS)
        except UnicodeDecodeError:
            raise HttpProblem(400, "the body is not a form in UTF-8", "send UTF-8, or JSON") from None
        except ValueError:
            why = f"the form has more than {MAX_FORM_FIELDS} fields"
            raise HttpProblem(400, why, "send a shorter form, or JSON") from None
        fields: dict[str, list[str]] = {}
        for name, value in pairs:
            fields.setdefault(name, []).append(value)
        return fields

    async def form(self, limits: ServerLimits) -> FormData:
        """The fields and files of a form, multipart/form-data; `close` removes the files.

        Raises:
            HttpProblem: it is not a form, too large, or takes too long.
            ClientGone: the client left before its end.
        """
        self.http = Request(self.http.scope, self._receive_at_most(limits.upload_bytes))
        try:
            async with _in_time(limits):
                return await self.http.form(
                    max_files=1, max_fields=MAX_FORM_FIELDS, max_part_size=limits.body_bytes
                )
        except (MultiPartException, HTTPException, ValueError):
            raise HttpProblem(400, "the body is not a form", "send a form, or JSON") from None

    async def close(self) -> None:
        """Remove the uploaded files."""
        await self.http.close()

    async def or_gone(self, awaited: Awaitable[Value]) -> Value:
        """The awaited value. It is cancelled if the client leaves first.

        Raises:
            ClientGone: the client left.
        """
        task = asyncio.ensure_future(awaited)
        gone = asyncio.ensure_future(self._disconnected())
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ClientGone
        finally:
            task.cancel()
            gone.cancel()

    async def _disconnected(self) -> None:
        """Wait until the client leaves."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _receive_at_most(self, max_bytes: int) -> Receive:
        """A function like `receive` that refuses a body of more bytes."""
        size = 0

        async def receive() -> ServerMessage:
            nonlocal size
            message = await self._receive()
            size += len(message.get("body", b""))
            if size > max_bytes:
                raise _too_large(max_bytes)
            return message

        return receive


@asynccontextmanager
async def _in_time(limits: ServerLimits) -> AsyncIterator[None]:
    """The context in which a body is read: HttpProblem if the client is slow, ClientGone if it left."""
    try:
        async with asyncio.timeout(limits.body_seconds):
            yield
    except TimeoutError:
        raise HttpProblem(408, "the body took too long", "send the request at once", code="timeout") from None
    except ClientDisconnect:
        raise ClientGone from None


def _too_large(max_bytes: int) -> HttpProblem:
    return HttpProblem(
        413, f"the body has more than {max_bytes:,} bytes", "send several requests", code="too_large"
    )
