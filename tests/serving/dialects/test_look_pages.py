"""The response of a look that comes in parts is closed however it ends."""

import asyncio

import pytest

from regard.serving.dialects.dialect import Call
from regard.serving.dialects.look_pages import LookPages, _looks, _Streamed
from regard.serving.http_error import HttpProblem
from regard.serving.looks import LookAnswer, Looks
from regard.verbs.shared.runtime import Runtime
from tests.serving.made_models import request_of, service_with


@pytest.mark.parametrize("fails", [False, True])
def test_a_streamed_answer_is_closed_when_it_is_sent_or_cannot_be(fails):
    closed, sent = [], []

    def parts():
        yield b"a"
        if fails:
            raise ValueError("why")

    kind = "application/x-ndjson"
    answer = LookAnswer(status=201, content_type=kind, content=parts(), close=lambda: closed.append(True))

    async def send(message):
        sent.append(message)

    async def receive():
        await asyncio.Future()

    async def run():
        await _Streamed(answer)({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)

    if fails:
        with pytest.raises((ValueError, ExceptionGroup)):
            asyncio.run(run())
    else:
        asyncio.run(run())
    assert closed == [True]
    assert sent[0]["status"] == 201
    assert (b"content-type", kind.encode()) in sent[0]["headers"]
    assert b"".join(message.get("body", b"") for message in sent) == b"a"


def test_a_server_without_looks_has_no_pages_of_them():
    service = service_with({"a": None})
    call = Call(service=service, request=request_of())
    for asked in (lambda: _looks(call), lambda: asyncio.run(LookPages().first(call))):
        with pytest.raises(HttpProblem, match="no looks") as caught:
            asked()
        assert caught.value.status == 404


def test_a_request_is_passed_on_below_its_model_s_page_and_the_log_names_the_model():
    asked = []

    class Answering(Looks):
        async def answer(self, slot, method, path, body, seconds):
            asked.append((slot.name, method, path, body))
            return LookAnswer(status=201, content_type="text/plain", content=b"c")

    service, request = service_with({"a": None, "b": None}), request_of(b"{}")
    service.looks = Answering(Runtime())
    found = asyncio.run(LookPages().passed_on(Call(service=service, request=request, path="b/c d")))
    assert asked == [("b", "POST", "/c%20d", b"{}")]
    assert (found.status_code, found.body) == (201, b"c")
    assert (request.model, request.texts) == ("b", ())


@pytest.mark.parametrize(("path", "target"), [("/look", "look/a/"), ("/look/", "a/")])
def test_the_page_of_the_first_model_is_found_by_a_relative_address(path, target):
    service, request = service_with({"a": None, "b": None}), request_of()
    service.looks = Looks(Runtime())
    request.http.scope["path"] = path
    found = asyncio.run(LookPages().first(Call(service=service, request=request)))
    assert (found.status_code, found.headers["location"]) == (303, target)
