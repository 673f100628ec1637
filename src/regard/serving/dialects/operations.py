"""Routes for those who run the server: health, readiness, metrics."""

from typing import Any, ClassVar

import msgspec
from starlette.responses import Response

from regard.serving.dialects.dialect import Call, Dialect, Route, json_response
from regard.serving.dialects.own import OwnDialect
from regard.serving.http_error import HttpProblem


class Health(msgspec.Struct):
    status: str


class OperationsDialect(Dialect):
    """Health and metrics, with the errors of regard's own dialect."""

    name: ClassVar[str] = "operations"

    def routes(self) -> list[Route]:
        health: dict[str, Any] = {"open": True, "while_draining": True, "answer": Health}
        return [
            Route("GET", "/health", self.live, "The same as /health/live.", **health),
            Route("GET", "/health/live", self.live, "The process answers.", **health),
            Route(
                "GET", "/health/ready", self.ready, "Requests are answered now.", statuses=(503,), **health
            ),
            Route("GET", "/metrics", self.metrics, "Metrics in Prometheus' format.", while_draining=True),
        ]

    def error(self, problem: HttpProblem, request_id: str) -> Response:
        return OwnDialect().error(problem, request_id)

    async def live(self, call: Call) -> Response:
        return json_response(Health(status="ok"))

    async def ready(self, call: Call) -> Response:
        if not call.service.ready:
            return json_response(Health(status="draining" if call.service.draining else "loading"), 503)
        return json_response(Health(status="ok"))

    async def metrics(self, call: Call) -> Response:
        metrics = call.service.metrics
        return Response(metrics.text(), media_type=metrics.content_type)
