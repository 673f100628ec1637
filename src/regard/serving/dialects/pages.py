"""The page of the server, and its OpenAPI document with a page that lists the operations."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, ClassVar

from starlette.responses import Response

from regard.serving.dialects.dialect import ENCODER, JSON, Call, Dialect, Route
from regard.serving.dialects.own import OwnDialect
from regard.serving.http_error import HttpProblem
from regard.serving.openapi import document
from regard.serving.page import page_files


class Pages(Dialect):
    """What a browser gets. The pages are open: they hold no text, and ask with the key that is typed in."""

    name: ClassVar[str] = "pages"

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._document = ENCODER.encode(document(dialects, "regard serve", version("regard")))

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/openapi.json", self.openapi, "This document.", open=True),
            Route("GET", "/", self.file("index.html"), "The page.", open=True),
            Route("GET", "/docs", self.file("docs.html"), "The operations as a page.", open=True),
            *(
                Route("GET", f"/page/{name}", self.file(name), "A file of the page.", open=True)
                for name in page_files()
            ),
        ]

    def error(self, problem: HttpProblem, request_id: str) -> Response:
        return OwnDialect().error(problem, request_id)

    async def openapi(self, call: Call) -> Response:
        return Response(self._document, media_type=JSON)

    def file(self, name: str) -> Any:
        """The handler that sends this file."""

        async def send(call: Call) -> Response:
            found = page_files()[name]
            return Response(found.content, media_type=found.content_type)

        return send
