"""How a server begins and ends: models are loaded, requests answered, and a loss is reported."""

import asyncio
from types import SimpleNamespace

import pytest

from regard.errors import UserError
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from regard.serving.run import ModelServer, _run
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
