"""An answer in parts: one event after the other, and an end."""

import asyncio

from regard.serving.event_stream import EventStream, event


def test_a_stream_is_a_head_a_part_for_each_event_and_an_empty_last_one():
    sent = []

    async def events():
        for each in (b"a", b"b"):
            yield event(each)

    async def send(message):
        sent.append(message)

    stream = EventStream(events(), {"X-Id": "7"})
    asyncio.run(stream.__call__({"type": "http"}, asyncio.Future, send))
    head, *parts = sent
    assert (head["type"], head["status"], stream.status_code) == ("http.response.start", 200, 200)
    headers = dict(head["headers"])
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert (headers[b"x-accel-buffering"], headers[b"x-id"]) == (b"no", b"7")
    assert [(each["body"], each["more_body"]) for each in parts] == [
        (b"data: a\n\n", True),
        (b"data: b\n\n", True),
        (b"", False),
    ]
    assert EventStream(events()).headers == {}
