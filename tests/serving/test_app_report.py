"""What the application adds to every response, writes to the log and counts."""

import asyncio
import json

import numpy as np
import pytest

from regard.serving.access_log import AccessLog
from regard.serving.app import CLOSES, HEADERS, App, _milliseconds, _Sender, _written, ending
from regard.serving.dialects.own import OwnDialect
from regard.serving.http_error import HttpProblem
from regard.verbs.shared.answerer import Recording
from tests.serving.conftest import Lines
from tests.serving.made_models import request_of, service_with


@pytest.fixture
def app():
    service, lines = service_with({"a": None}), Lines()
    service.log = AccessLog(lines, texts=True)
    return App(service, [OwnDialect()]), service, lines.lines


def value(service, name, **labels):
    return service.metrics.registry.get_sample_value(name, labels)


def test_a_request_is_written_with_its_times_and_counts_and_no_recording(app):
    reporter, service, lines = app
    request = request_of()
    request.note(model="a", texts=["one", ("two", "three"), Recording(np.zeros(4, np.float32), 16_000)])
    request.output_tokens, request.queue_seconds, request.first_part_seconds = 5, 0.01234, 1.5
    reporter._report(request, "POST", "/x", 200)
    found = json.loads(lines[0])
    assert (found["id"], found["method"], found["route"], found["status"]) == (request.id, "POST", "/x", 200)
    assert (found["model"], found["texts"], found["characters"], found["output_tokens"]) == ("a", 3, 11, 5)
    assert (found["queue_ms"], found["first_part_ms"]) == (12.3, 1500.0)
    assert 0 <= found["ms"] < 60_000
    assert found["content"] == ["one", ["two", "three"]]
    assert value(service, "regard_requests_total", route="/x", status="200") == 1
    assert value(service, "regard_request_seconds_count", route="/x") == 1
    assert value(service, "regard_request_seconds_sum", route="/x") < 60
    assert value(service, "regard_output_tokens_total", model="a") == 5


def test_an_error_before_there_is_a_request_has_an_id_of_its_own_like_that_of_a_request(app):
    problem = HttpProblem(408, "too slow", "send it at once")
    one, other = (json.loads(app[0].error_body("/x", problem)) for _ in range(2))
    assert (one["error"], one["hint"]) == ("too slow", "send it at once")
    assert one["request_id"] != other["request_id"]
    assert len(one["request_id"]) == len(other["request_id"]) == len(request_of().id)


def test_a_request_without_texts_has_no_counts(app):
    reporter, service, lines = app
    reporter._report(request_of(), "GET", "/x", 404)
    found = json.loads(lines[0])
    assert {"model", "texts", "characters", "output_tokens", "content", "queue_ms"}.isdisjoint(found)
    assert value(service, "regard_output_tokens_total", model="") is None
    assert _milliseconds(None) is None
    assert _written(()) is None


@pytest.mark.parametrize(
    ("method", "written"), [("PROPPATCH", "PROPPATCH"), ("A" * 10, "other"), ("GET2", "other"), ("", "other")]
)
def test_a_method_is_written_if_it_is_a_short_word(app, method, written):
    reporter, _, lines = app
    reporter._report(request_of(), method, "/x", 405)
    assert json.loads(lines[0])["method"] == written


def test_texts_are_written_only_if_that_is_asked_for(app):
    reporter, service, lines = app
    service.log.texts = False
    request = request_of()
    request.note(model="a", texts=["secret"])
    reporter._report(request, "POST", "/x", 200)
    assert "secret" not in lines[0]


@pytest.mark.parametrize(("code", "reason"), [("rate_limit", "rate_limit"), (None, "overloaded")])
def test_refusals_for_too_much_are_counted_by_their_reason(app, capsys, code, reason):
    reporter, service, _ = app
    request = request_of()
    reporter._error(OwnDialect(), HttpProblem(429, "too much", code=code), request)
    reporter._error(OwnDialect(), HttpProblem(400, "wrong"), request)
    assert value(service, "regard_rejected_requests_total", reason=reason) == 1
    assert capsys.readouterr().err == ""
    reporter._error(OwnDialect(), HttpProblem(500, "it failed"), request)
    assert f"{request.id}: it failed" in capsys.readouterr().err


def sent(service, status, headers=()):
    messages = []

    async def send(message):
        messages.append(message)

    async def run():
        sender = _Sender(send, "some-id", service)
        before = sender.status
        await sender({"type": "http.response.start", "status": status, "headers": [*headers]})
        await sender({"type": "http.response.body", "body": b"x"})
        return before, sender.status

    states = asyncio.run(run())
    assert messages[1] == {"type": "http.response.body", "body": b"x"}
    assert states == (499, status)
    return {name.decode(): each.decode() for name, each in messages[0]["headers"]}


def test_a_response_has_the_headers_of_all_but_keeps_its_own():
    service = service_with({})
    assert sent(service, 200) == {**HEADERS, "x-request-id": "some-id"}
    own = sent(service, 200, [(b"Cache-Control", b"max-age=5")])
    assert own.pop("Cache-Control") == "max-age=5"
    assert set(own) == {*HEADERS, "x-request-id"} - {"cache-control"}


def test_a_connection_is_closed_after_an_unread_body_and_by_a_server_that_ends():
    service = service_with({})
    assert [sent(service, each).get("connection") for each in (*CLOSES, 400)] == ["close"] * 3 + [None]
    service.draining = True
    assert sent(service, 200)["connection"] == "close"
    assert (ending().status, ending().code, ending().retry_after) == (503, "unavailable", 5)
