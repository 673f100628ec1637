"""Whether a server is ready, and why it is not; its metrics as long as it answers."""

import asyncio
import json

import pytest

from regard.serving.app import App
from regard.serving.dialects.dialect import Call
from regard.serving.dialects.operations import OperationsDialect
from tests.serving.made_models import request_of, service_with

ROUTES = {route.path: route for route in OperationsDialect().routes()}


@pytest.mark.parametrize(
    ("loaded", "draining", "status", "said"),
    [(False, False, 503, "loading"), (True, False, 200, "ok"), (True, True, 503, "draining")],
)
def test_a_server_that_is_not_ready_says_why(loaded, draining, status, said):
    service = service_with({"a": None})
    service.loaded, service.draining = loaded, draining
    route = ROUTES["/health/ready"]
    found = asyncio.run(route.handler(Call(service=service, request=request_of())))
    assert (found.status_code, json.loads(found.body)) == (status, {"status": said})
    assert status in (route.success, *route.statuses), "the document has it"


@pytest.mark.parametrize("path", ROUTES)
def test_a_server_that_is_ending_still_reports_its_state(path):
    service, sent = service_with({"a": None}), []
    service.draining = True
    request = request_of(headers={"Host": "localhost"})

    async def send(message):
        sent.append(message)

    app = App(service, [OperationsDialect()])
    asyncio.run(app({**request.http.scope, "method": "GET", "path": path}, request._receive, send))
    assert b"the server is ending" not in b"".join(each.get("body", b"") for each in sent)
