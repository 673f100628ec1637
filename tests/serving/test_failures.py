"""What fails inside the server: who gets the error, what is counted, and what is released."""

import asyncio
import builtins
import socket
import threading

import pytest

from regard.errors import FolderError, MissingExtra, UserError
from regard.serving import languages
from regard.serving.app import App
from regard.serving.dialects.deepl import _handling
from regard.serving.dialects.dialect import Dialect, Route
from regard.serving.dialects.fields import Fields
from regard.serving.dialects.own import OwnDialect
from regard.serving.glossaries import GlossaryStore
from regard.serving.http_error import HttpProblem
from regard.serving.job import Job
from regard.serving.request import ClientGone
from regard.serving.run import bound
from regard.serving.scheduler import Closed
from regard.serving.workers import WorkerHandle
from tests.serving.made_models import service_with
from tests.serving.test_scheduler import Echo


class Failing(Dialect):
    """A dialect with one operation, which fails, or whose response does."""

    name = "regard"

    def __init__(self, error, *, late=False):
        self.failure, self.late = error, late

    def routes(self):
        return [Route("GET", "/fails", self.fails, "Fail.")]

    def error(self, problem, request_id):
        return OwnDialect().error(problem, request_id)

    async def fails(self, call):
        if not self.late:
            raise self.failure

        async def response(scope, receive, send):
            raise self.failure

        return response


def asked(dialect, *, draining=False, kind="http"):
    """The service, the messages that were sent, and what the application raised."""
    service, sent = service_with({}), []
    service.draining = draining
    headers = [(b"host", b"localhost:8000")]
    scope = {"type": kind, "method": "GET", "path": "/fails", "query_string": b"", "headers": headers}

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    async def run():
        app = App(service, [dialect])
        for route in app._exact.values():  # of a server that ends, too
            for _, each in route.values():
                object.__setattr__(each, "while_draining", True)
        try:
            await app(scope, receive, send)
        except BaseException as error:  # noqa: BLE001 (the test looks at it)
            return error

    return service, sent, asyncio.run(run())


def status(sent):
    return [message["status"] for message in sent if message["type"] == "http.response.start"]


@pytest.mark.parametrize("late", [False, True])
def test_a_client_that_leaves_gets_nothing_and_is_counted(late):
    service, sent, raised = asked(Failing(ClientGone(), late=late))
    assert (sent, raised, service.in_flight) == ([], None, 0)
    counted = service.metrics.registry.get_sample_value("regard_cancelled_requests_total", {"model": ""})
    assert counted == 1.0


def test_an_error_of_the_program_is_one_of_the_server_unless_an_answer_has_begun(capsys):
    service, sent, raised = asked(Failing(ValueError("why")))
    assert (status(sent), raised, service.in_flight) == ([500], None, 0)
    failure = ValueError("later")
    service, sent, raised = asked(Failing(failure, late=True))
    assert (status(sent), raised, service.in_flight) == ([], failure, 0)
    written = capsys.readouterr().err
    assert "ValueError: why" in written
    assert "ValueError: later" in written


@pytest.mark.parametrize("draining", [False, True])
def test_a_request_that_is_given_up_is_refused_by_a_server_that_ends(draining):
    service, sent, raised = asked(Failing(asyncio.CancelledError()), draining=draining)
    assert status(sent) == ([503] if draining else [])
    assert isinstance(raised, asyncio.CancelledError) is not draining
    assert service.in_flight == 0


def test_what_is_no_http_is_no_request():
    _, sent, raised = asked(Failing(ValueError("why")), kind="lifespan")
    assert (sent, raised) == ([], None)


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"^127.0.0.1:{port}: ") as caught:
            bound("127.0.0.1", port)
    assert caught.value.hint == "--port 0 takes a free one"
    with bound("127.0.0.1", 0) as free:
        assert free.getsockname()[1] > 0
        assert not free.get_inheritable()


def test_a_glossary_that_cannot_be_read_is_named(tmp_path):
    name = "01234567-89ab-cdef-0123-456789abcdef.json"
    (tmp_path / name).mkdir()
    with pytest.raises(FolderError, match=f"{name}: ") as caught:
        GlossaryStore(tmp_path)
    assert "readable" in caught.value.hint


def test_without_its_library_no_language_is_detected(monkeypatch):
    imported = builtins.__import__

    def without(name, *more, **others):
        if name.startswith("py3langid"):
            raise ModuleNotFoundError(name)
        return imported(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match="language detection"):
        languages._identifier.__wrapped__()


@pytest.mark.parametrize("kind", [None, "latency_optimized", "prefer_quality_optimized"])
def test_there_is_one_model_for_each_pair(kind):
    assert _handling(Fields({"model_type": kind}, is_form=False)) == (None, "auto")
    with pytest.raises(HttpProblem, match="model_type = quality_optimized"):
        _handling(Fields({"model_type": "quality_optimized"}, is_form=False))


def test_a_worker_that_is_closed_takes_no_request():
    handle = WorkerHandle.__new__(WorkerHandle)
    handle._lock, handle._closed = threading.RLock(), True
    with pytest.raises(Closed):
        handle.submit(Job(answerer=Echo(), pieces=["a"], finished=print))
