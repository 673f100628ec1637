"""How a server begins and ends: models are loaded, requests answered, and a loss is reported."""

import asyncio
import logging
import signal
import socket
import sys
from contextlib import closing
from types import SimpleNamespace

import pytest
import uvicorn

from regard.cli.serve import command
from regard.errors import UserError
from regard.serving import run
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.limits import ServerLimits
from regard.serving.run import ModelServer, ServeOptions, _is_loopback, _run, bound, serve, service_of
from regard.verbs.shared.runtime import DecodingRuntime
from tests.serving.made_models import MadeModel, Runner, service_with


@pytest.fixture
def busy(monkeypatch):
    """A server whose model answers no request, and what the model is asked; a second passes at each look."""
    runner, now = Runner(), [0.0]
    runner.busy = True
    server = ModelServer(service_with({"en-de": Engine(MadeModel(), runner)}), [])

    async def sleep(seconds):
        now[0] += 1.0

    async def to_thread(call):
        call()

    monkeypatch.setattr("regard.serving.run.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(
        "regard.serving.run.asyncio",
        SimpleNamespace(sleep=sleep, to_thread=to_thread, ensure_future=asyncio.ensure_future),
    )
    return server, runner, now


def test_a_model_that_does_not_answer_in_time_is_given_up_and_the_loss_is_reported(busy):
    server, runner, now = busy
    asyncio.run(server._drain())
    assert (server.should_exit, server.lost, runner.calls) == (True, True, ["abort"])
    assert now[0] == server.service.limits.drain_seconds + 1, "one more look, for the refusals"


def test_one_that_answers_is_not(busy):
    server, runner, _ = busy
    runner.busy = False
    asyncio.run(server._drain())
    assert (server.should_exit, server.lost, runner.calls) == (True, False, [])


def test_a_server_that_is_stopped_twice_ends_at_once(busy):
    server, _, _ = busy

    async def stopped_twice():
        server.stop()
        first = server.service.draining, bool(server.force_exit), server.lost
        server.stop()
        return first

    assert asyncio.run(stopped_twice()) == (True, False, False)
    assert (server.force_exit, server.should_exit, server.lost) == (True, True, True)


def test_a_server_ends_when_for_a_while_no_request_was_there(busy, monkeypatch):
    server, runner, now = busy
    runner.busy, server.service.in_flight = False, 1

    async def sleep(seconds):
        now[0] += 1.0
        server.service.in_flight = int(now[0] < 8.0)

    monkeypatch.setattr(run.asyncio, "sleep", sleep)
    monkeypatch.setattr(run, "QUIET", 4.0)
    asyncio.run(server._drain())
    assert now[0] == 7.0 + 4.0, "the last request was there at 7 s"


def test_what_runs_beside_requests_is_kept_until_it_is_done(busy):
    """asyncio itself may forget a task that nobody else has."""
    server, _, _ = busy

    async def started():
        server._start(asyncio.sleep(0))
        kept = len(server._tasks)
        for _ in range(3):
            await asyncio.sleep(0)
        return kept, len(server._tasks)

    assert asyncio.run(started()) == (1, 0)


def test_a_server_is_loaded_while_it_serves_and_ends_its_models_and_looks(busy, monkeypatch):
    server, runner, _ = busy
    server.service.looks = SimpleNamespace(close=lambda: runner.calls.append("close looks"))

    async def served(self, sockets=None):
        assert server.service.loaded
        raise OSError("broken")

    monkeypatch.setattr(uvicorn.Server, "serve", served)
    with pytest.raises(OSError, match="broken"):
        asyncio.run(server.run_until_stopped())
    assert runner.calls == ["close looks", "abort"]


@pytest.mark.parametrize("cause", [UserError("the folder is damaged", "copy it again"), None])
def test_a_model_that_cannot_be_loaded_ends_the_start_with_its_own_error(busy, monkeypatch, cause):
    server, _, _ = busy
    problem = HttpProblem(503, "the model en-de cannot be loaded", "see the log")

    async def engine(slot):
        raise problem from cause

    monkeypatch.setattr(server.service.models, "engine", engine)
    with pytest.raises((UserError, HttpProblem)) as caught:
        asyncio.run(server.load_models())
    assert caught.value is (cause or problem)


@pytest.mark.parametrize("lazy", [False, True])
def test_models_are_loaded_before_the_first_request_unless_the_server_is_lazy(lazy):
    calls = []

    async def load():
        calls.append("load")

    async def run():
        calls.append(server.note)

    server = SimpleNamespace(
        handle_signals=lambda: calls.append("signals"), load_models=load, run_until_stopped=run, note=""
    )
    begun = getattr(_run, "__wrapped__", _run)  # without the checks of types
    asyncio.run(begun(server, lazy, "ready"))
    assert calls == ["signals", *([] if lazy else ["load"]), "ready"]


@pytest.fixture
def begun(monkeypatch):
    """`serve` with a made server; what it does, in order."""
    calls = []
    service = service_with({"en-de": None, "de-en": None})
    monkeypatch.setattr(service.models, "abort", lambda: calls.append("abort"))
    made = SimpleNamespace(
        getsockname=lambda: ("::1", 8123, 0, 0),
        close=lambda: calls.append("close"),
    )
    server = SimpleNamespace(lost=False, failure=None)

    async def running(given, lazy, note):
        calls.append((given, lazy, note))
        if server.failure:
            raise server.failure

    monkeypatch.setattr(run, "service_of", lambda options: service)
    monkeypatch.setattr(run, "bound", lambda host, port: calls.append((host, port)) or made)
    monkeypatch.setattr(run, "ModelServer", lambda given, sockets: server)
    monkeypatch.setattr(run, "_run", running)
    monkeypatch.setattr(logging.getLogger("uvicorn"), "level", logging.INFO)
    return calls, server


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_a_server_names_its_models_and_address_and_releases_them_at_its_end(begun, capsys, host, shown, lazy):
    calls, server = begun
    serve(ServeOptions(host=host, port=80, lazy=lazy))
    note = f"serving en-de, de-en at http://{shown}:8123; Ctrl-C stops the server"
    assert calls == [(host, 80), (server, lazy, note), "close", "abort"]
    assert logging.getLogger("uvicorn").level == logging.CRITICAL
    assert capsys.readouterr().err == "all accepted requests are answered\n"


def test_a_server_that_lost_requests_warns_and_one_that_fails_reports_its_error_alone(begun, capsys):
    calls, server = begun
    server.lost = True
    serve(ServeOptions())
    assert capsys.readouterr().err.startswith("warning: the server ended before it had answered all")
    calls.clear()
    server.failure = UserError("the folder is damaged", "copy it again")
    with pytest.raises(UserError, match="damaged"):
        serve(ServeOptions())
    assert calls[-2:] == ["close", "abort"]
    assert capsys.readouterr().err == ""


def test_signals_stop_the_server_or_load_its_models_again(busy, monkeypatch):
    server, _, _ = busy
    handlers = {}
    loop = SimpleNamespace(add_signal_handler=handlers.__setitem__)
    monkeypatch.setattr(run, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    server.handle_signals()
    assert handlers == {
        signal.SIGTERM: server.stop,
        signal.SIGINT: server.stop,
        signal.SIGHUP: server.reload,
    }

    def unknown(*given):
        raise NotImplementedError

    loop.add_signal_handler = unknown
    server.handle_signals()  # Windows


def test_a_note_is_printed_when_requests_are_answered(busy, monkeypatch, capsys):
    server, _, _ = busy

    async def startup(self, sockets=None):
        print("listens")

    monkeypatch.setattr(uvicorn.Server, "startup", startup)
    asyncio.run(server.startup())
    assert capsys.readouterr() == ("listens\n", "")
    server.note = "ready"
    asyncio.run(server.startup())
    assert capsys.readouterr() == ("listens\n", "ready\n")


def test_the_http_server_has_the_limits_and_adds_nothing_to_answers_or_the_log():
    limits = ServerLimits(keep_alive_seconds=7, header_bytes=4321)
    config = ModelServer(service_with({"en-de": None}, limits), []).config
    assert (config.timeout_keep_alive, config.h11_max_incomplete_event_size) == (7, 4321)
    assert (config.access_log, config.server_header, config.proxy_headers) == (False, False, False)
    assert (config.ws, config.lifespan, config.log_config) == ("none", "off", None)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_a_loopback_address_is_that_of_this_machine(host, loopback):
    assert _is_loopback(host) is loopback


def test_a_service_has_what_its_options_say():
    service = service_of(ServeOptions(memory_mb=3))
    assert (service.models.budget_bytes, service.public, service.keys.required) == (3 << 20, False, False)
    assert service_of(ServeOptions()).models.budget_bytes is None
    assert service_of(ServeOptions(host="0.0.0.0", open=True)).public


def test_looks_are_for_this_machine_without_keys_unless_they_are_asked_for(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef01234567\n")
    public = {"host": "0.0.0.0", "open": True}

    def has_looks(**options):
        return service_of(ServeOptions(**options)).looks is not None

    assert has_looks()
    assert not has_looks(look=False)
    assert not has_looks(api_keys=keys)
    assert not has_looks(api_keys=keys, look=False)
    assert not has_looks(**public)
    assert has_looks(**public, look=True)
    with pytest.raises(UserError, match="--look with --api-keys"):
        service_of(ServeOptions(api_keys=keys, look=True))


@pytest.mark.parametrize(("threads", "used"), [(None, 1), (3, 3)])
def test_looks_have_the_threads_of_the_server_or_one(threads, used):
    looks = service_of(ServeOptions(runtime=DecodingRuntime(threads=threads))).looks
    assert looks._runtime.threads == used


@pytest.mark.parametrize("host", ["10.9.9.9", "nope.invalid"])
def test_a_host_of_another_machine_is_not_blamed_on_the_port(host):
    with pytest.raises(UserError) as caught:
        bound(host, 0)
    assert "--host" in caught.value.hint


def test_a_port_that_is_taken_has_a_hint():
    with closing(bound("127.0.0.1", 0)) as first:
        first.listen()
        with pytest.raises(UserError, match="in use") as caught:
            bound("127.0.0.1", first.getsockname()[1])
    assert "--port 0" in caught.value.hint


def test_a_port_is_free_again_as_soon_as_its_server_has_ended():
    with closing(bound("127.0.0.1", 0)) as first:
        first.listen()
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            first.accept()[0].close()  # the server closes first
            assert client.recv(1) == b""
    bound("127.0.0.1", port).close()


def test_options_that_are_not_given_are_those_of_the_command():
    options, asked = vars(ServeOptions()), command.make_context("serve", []).params
    both = options.keys() & asked.keys() - {"models", "allow_origins"}  # lists, which are tuples there
    assert both >= {"host", "port", "lazy", "access_log", "log_texts"}
    assert {name: options[name] for name in both} == {name: asked[name] for name in both}


def test_requests_are_logged_on_stderr_unless_that_is_switched_off():
    assert service_of(ServeOptions()).log.stream is sys.stderr
    assert service_of(ServeOptions(access_log=False)).log.stream is None
