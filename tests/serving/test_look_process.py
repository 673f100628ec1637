"""A process with looks reports that it has started, or why it could not."""

import multiprocessing
import signal
from types import SimpleNamespace

import pytest

from regard.errors import RegardError, RunError
from regard.serving import look_process
from regard.serving.look_process import LookProcess, _Failed, _serve, _Started, _started
from regard.verbs.shared.runtime import Runtime


@pytest.fixture
def ends():
    own, its = multiprocessing.Pipe(duplex=False)
    yield own, its
    own.close()
    its.close()


def test_a_process_that_has_started_reports_where_it_is(ends):
    own, its = ends
    its.send(_Started(8123, "secret"))
    found = _started(own)
    assert (found.port, found.token) == (8123, "secret")


def test_one_that_cannot_load_its_model_reports_why(ends):
    own, its = ends
    its.send(_Failed("m has no looks", "give another model"))
    with pytest.raises(RegardError, match="m has no looks") as caught:
        _started(own)
    assert caught.value.hint == "give another model"


def test_one_that_dies_or_sends_something_else_has_not_started(ends):
    own, its = ends
    its.send("hello")
    its.close()
    for _ in range(2):
        with pytest.raises(RunError, match="did not start") as caught:
            _started(own)
        assert caught.value.hint


def test_one_that_sends_nothing_is_not_waited_for_any_longer(ends, monkeypatch):
    monkeypatch.setattr(look_process, "START_SECONDS", 0.0)
    with pytest.raises(RunError, match="did not start"):
        _started(ends[0])


def test_a_process_ends_with_the_server_and_reports_its_address_before_it_answers(monkeypatch):
    calls, sent = [], []

    class Served:
        port, token = 8123, "secret"

        def __init__(self, store):
            calls.append(store)

        def serve_forever(self):
            calls.append("serve")

    connection = SimpleNamespace(send=sent.append, close=lambda: calls.append("close"))
    monkeypatch.setattr(look_process, "end_with", calls.append)
    monkeypatch.setattr(look_process.signal, "signal", lambda *given: calls.append(given))
    monkeypatch.setattr(look_process, "Looker", lambda path, runtime: (path, runtime))
    monkeypatch.setattr(look_process, "LookStore", lambda looker: looker)
    monkeypatch.setattr(look_process, "LocalServer", Served)
    serve = getattr(_serve, "__wrapped__", _serve)  # without the checks of types
    serve(connection, None, "runtime", 4711)
    ignored = [(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGHUP)]
    assert calls == [4711, *ignored, (None, "runtime"), "close", "serve"]
    assert sent == [_Started(8123, "secret")]

    def failing(store):
        raise RegardError("m has no looks", "give another model")

    calls.clear()
    sent.clear()
    monkeypatch.setattr(look_process, "LocalServer", failing)
    serve(connection, None, "runtime", 4711)
    assert sent == [_Failed("m has no looks", "give another model")]
    assert "serve" not in calls


def test_a_process_that_does_not_start_is_ended_and_its_connection_closed(ends, monkeypatch):
    calls, given = [], {}
    made = SimpleNamespace(
        pid=4711,
        start=lambda: calls.append("start"),
        kill=lambda: calls.append("kill"),
        join=lambda: calls.append("join"),
    )
    context = SimpleNamespace(Pipe=lambda duplex: ends, Process=lambda **more: given.update(more) or made)
    monkeypatch.setattr(look_process.multiprocessing, "get_context", lambda kind: context)
    with pytest.raises(RunError, match="did not start"):  # nobody holds the other end
        LookProcess(None, Runtime())
    assert calls == ["start", "kill", "join"]
    assert given["daemon"], "a server does not wait for it at its exit"
    assert [end.closed for end in ends] == [True, True]
    made.pid = None  # it could not be begun

    def start():
        raise OSError("no memory")

    made.start = start
    calls.clear()
    again = multiprocessing.Pipe(duplex=False)
    context.Pipe = lambda duplex: again
    with pytest.raises(OSError, match="no memory"):
        LookProcess(None, Runtime())
    assert calls == []
    again[1].close()
