"""The page of `regard look` for each model of the server."""

from typing import ClassVar
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from regard.serving.dialects.dialect import Call, Dialect, Route
from regard.serving.dialects.own import OwnDialect
from regard.serving.http_error import HttpProblem
from regard.serving.looks import LookAnswer, Looks


class LookPages(Dialect):
    """/look/NAME/ is the page of a model. A process with the looks of that model answers its requests."""

    name: ClassVar[str] = "look"

    def routes(self) -> list[Route]:
        about = "The page of `regard look`, and what it asks for."
        return [
            Route("GET", "/look", self.first, "The page of the first model."),
            Route("GET", "/look/", self.first, "The page of the first model."),
            Route("GET", "/look/{}", self.passed_on, about),
            Route("POST", "/look/{}", self.passed_on, about),
        ]

    def error(self, problem: HttpProblem, request_id: str) -> Response:
        return OwnDialect().error(problem, request_id)

    async def first(self, call: Call) -> Response:
        """A redirect to the page of the first model; relative, for a proxy may have put a path before it."""
        _looks(call)
        before = "" if call.request.http.url.path.endswith("/") else "look/"
        return RedirectResponse(f"{before}{call.service.models.default.name}/", 303)

    async def passed_on(self, call: Call) -> "Response | _Streamed":
        """What the process of the model answers."""
        looks = _looks(call)
        name, slash, rest = call.path.partition("/")
        slot = call.service.slot(name)
        if not slash:
            return RedirectResponse(f"{name}/", 303)
        request = call.request
        method = request.http.method
        body = await request.body(call.service.limits) if method == "POST" else b""
        request.note(model=slot.name, texts=())
        seconds = request.timeout_seconds(call.service.limits)
        found = await looks.answer(slot, method, f"/{quote(rest)}", body, seconds)
        if isinstance(found.content, bytes):
            return Response(found.content, found.status, media_type=found.content_type)
        return _Streamed(found)


class _Streamed:
    """The response of an answer in parts, which is closed however the response ends."""

    def __init__(self, answer: LookAnswer) -> None:
        assert not isinstance(answer.content, bytes)
        self._answer = answer
        self._response = StreamingResponse(answer.content, answer.status, media_type=answer.content_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._answer.close()


def _looks(call: Call) -> Looks:
    if call.service.looks is None:
        raise HttpProblem(
            404,
            "this server has no looks",
            "start it with --look, on 127.0.0.1 and without keys",
            code="not_found",
        )
    return call.service.looks
