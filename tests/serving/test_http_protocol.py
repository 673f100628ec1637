"""The limits on a connection's time: with a transport that keeps what it gets, and a clock of its own."""

import asyncio
import inspect
import json

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from regard.serving.http_protocol import GRACE, protocol_of
from regard.serving.limits import ServerLimits

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v2/translate?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n"
LIMITS = ServerLimits(
    header_seconds=8.0, body_seconds=16.0, write_seconds=32.0, keep_alive_seconds=1000, connections=3
)


class Kept(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self):
        super().__init__()
        self.content, self.closed, self.aborted = b"", False, False

    def write(self, data):
        self.content += data

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def abort(self):
        self.closed = self.aborted = True

    def get_extra_info(self, name, default=None):
        return default

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Timer:
    def __init__(self, at, call):
        self.at, self.call = at, call

    def cancel(self):
        self.call = None


class Timers:
    """A loop whose time passes when a test says so."""

    def __init__(self):
        self.now, self.waiting = 0.0, []

    def call_later(self, seconds, call):
        self.waiting.append(Timer(self.now + seconds, call))
        return self.waiting[-1]

    def __getattr__(self, name):
        return getattr(asyncio.get_running_loop(), name)

    async def passes(self, seconds):
        self.now += seconds
        for _ in range(5):  # what is ready runs
            await asyncio.sleep(0)
        for each in [each for each in self.waiting if each.call is not None and each.at <= self.now]:
            call, each.call = each.call, None
            call()


async def answers(scope, receive, send):
    """Answers when the body has come."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def at_once(scope, receive, send):
    """Answers though the body has not come, and keeps the connection."""
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


async def never(scope, receive, send):
    await asyncio.Future()


def error_body(path, problem):
    return json.dumps([path, problem.status, problem.message]).encode()


def connections(number, app=answers):
    """So many connections to one server, and their clock."""
    config = Config(app, ws="none", lifespan="off", log_config=None, timeout_keep_alive=1000)
    config.load()
    state, timers = ServerState(), Timers()
    made = [
        protocol_of(LIMITS, error_body)(config=config, server_state=state, app_state={}, _loop=timers)
        for _ in range(number)
    ]
    for each in made:
        each.connection_made(Kept())
    return *made, timers


def in_loop(test):
    """The test, run by an event loop."""

    def run(*arguments, **keywords):
        asyncio.run(test(*arguments, **keywords))

    run.__name__, run.pytestmark = test.__name__, getattr(test, "pytestmark", [])
    run.__signature__ = inspect.signature(test)
    return run


def error_of(connection):
    head, _, body = connection.transport.content.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert f"content-length: {len(body)}".encode() in head.lower()
    return json.loads(body)


@pytest.mark.parametrize("sent", [[], [GET]], ids=["nothing", "some"])
@in_loop
async def test_headers_that_take_too_long_are_refused(sent):
    one, timers = connections(1)
    for each in sent:
        one.data_received(each)
    await timers.passes(7)
    if sent:  # the time of the headers begins once, whatever is dripped
        one.data_received(b"X-More: 1\r\n")
    assert not one.transport.closed
    await timers.passes(1)
    assert error_of(one) == ["/health" if sent else "/", 408, "the headers took too long"]
    assert (one.transport.closed, one.transport.aborted) == (True, False)
    await timers.passes(31)
    assert not one.transport.aborted
    await timers.passes(1)
    assert one.transport.aborted, "it did not read what was sent"


@in_loop
async def test_a_body_that_takes_too_long_is_cut_off_after_the_application_had_time_to_answer():
    one, timers = connections(1, never)
    one.data_received(POST)
    await timers.passes(16 + GRACE - 1)
    assert not one.transport.closed
    await timers.passes(1)
    assert one.transport.aborted


@in_loop
async def test_a_client_in_time_is_answered_and_may_ask_again():
    one, timers = connections(1)
    for _ in range(3):
        await timers.passes(7)
        one.data_received(POST[:20])
        one.data_received(POST[20:])
        await timers.passes(15)
        one.data_received(b"abc")
        await timers.passes(0)
        assert one.transport.content.endswith(b"ok")
        one.transport.content = b""
    await timers.passes(100)
    assert not one.transport.closed, "how long an idle connection is kept, uvicorn decides"


@in_loop
async def test_a_body_after_its_answer_has_its_time_and_then_another_request():
    """uvicorn closes no idle connection whose answer was sent before the body had come."""
    slow, quick, timers = connections(2, at_once)
    for each in (slow, quick):
        each.data_received(POST)
    await timers.passes(0)
    assert slow.transport.content.endswith(b"no")
    await timers.passes(16 + GRACE - 1)
    quick.data_received(b"abc")
    await timers.passes(1)
    assert (slow.transport.aborted, quick.transport.closed) == (True, False)
    quick.transport.content = b""
    await timers.passes(6)
    assert not quick.transport.closed
    await timers.passes(1)
    assert error_of(quick)[1:] == [408, "the headers took too long"]


@in_loop
async def test_an_application_may_take_longer_than_a_client():
    one, timers = connections(1, never)
    one.data_received(GET + b"\r\n")
    await timers.passes(100)
    assert not one.transport.closed


@pytest.mark.parametrize("resumed", [False, True])
@in_loop
async def test_a_client_that_does_not_read_is_cut_off(resumed):
    one, timers = connections(1, never)
    one.data_received(GET + b"\r\n")
    one.pause_writing()
    assert one.flow.write_paused, "the application waits"
    await timers.passes(31)
    assert not one.transport.closed
    if resumed:
        one.resume_writing()
        assert not one.flow.write_paused
    await timers.passes(1)
    assert one.transport.aborted is not resumed
    if resumed:
        one.pause_writing()
        await timers.passes(31)
        assert not one.transport.aborted
        await timers.passes(1)
        assert one.transport.aborted
    one.connection_lost(None)  # or the application would wait for ever


@in_loop
async def test_a_connection_that_is_lost_waits_for_nothing():
    one, other, timers = connections(2)
    one.connection_lost(None)
    other.pause_writing()
    other.connection_lost(None)
    assert all(each.call is None for each in timers.waiting)
    await timers.passes(100)
    assert one.transport.content == other.transport.content == b""
    assert not other.transport.aborted


@in_loop
async def test_as_many_connections_as_the_limit_are_taken():
    *taken, refused, _ = connections(4)
    assert not any(each.transport.closed for each in taken)
    assert error_of(refused) == ["/", 503, "too many connections"]
    assert refused.transport.closed


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        (POST.replace(b"Content-Length: 3", b"Content-Length: x"), "/v2/translate"),
        (b"\x16\x03\x01\r\n\r\n", "/"),
    ],
    ids=["header", "bytes"],
)
@in_loop
async def test_what_is_not_http_is_refused_as_the_dialect_of_its_path_does(sent, path):
    one, _ = connections(1)
    one.data_received(sent)
    assert error_of(one) == [path, 400, "the request is not HTTP, or its headers are too long"]
    assert one.transport.closed


@pytest.mark.parametrize("end", ["shutdown", "timeout_keep_alive_handler"])
@in_loop
async def test_an_idle_connection_that_is_closed_is_cut_off_if_its_client_does_not_read(end):
    one, timers = connections(1)
    getattr(one, end)()
    assert (one.transport.closed, one.transport.aborted) == (True, False)
    await timers.passes(31)
    assert not one.transport.aborted
    await timers.passes(1)
    assert one.transport.aborted


@in_loop
async def test_a_client_that_does_not_read_has_no_more_time_because_its_connection_is_closed():
    one, timers = connections(1)
    one.pause_writing()
    await timers.passes(7)
    one.shutdown()
    await timers.passes(24)
    assert (one.transport.closed, one.transport.aborted) == (True, False)
    await timers.passes(1)
    assert one.transport.aborted


@in_loop
async def test_a_connection_whose_answer_is_computed_is_not_cut_off_when_the_server_ends():
    one, timers = connections(1, never)
    one.data_received(GET + b"\r\n")
    await timers.passes(0)
    one.shutdown()
    await timers.passes(100)
    assert not one.transport.closed
