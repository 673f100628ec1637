"""What answers the requests to a model: workers on a CPU, a thread where there can be none."""

from pathlib import Path
from types import SimpleNamespace

import jaxtyping
import pytest
import torch

from regard.errors import UserError
from regard.serving import engine
from regard.serving.scheduler import QueueLimits
from regard.verbs.shared.runtime import DecodingRuntime

LIMITS = QueueLimits(requests=3)


class Model:
    """A model that tells whether it was prepared."""

    def __init__(self, path, runtime):
        self.path, self.runtime, self.prepared = path, runtime, False

    def prepare(self):
        self.prepared = True


class Workers:
    def __init__(self, model, number, *, threads, limits, observer):
        assert model.prepared, "before it is forked"
        self.given = (number, threads, limits, observer)


class Scheduler:
    def __init__(self, limits, observer):
        self.given = (limits, observer)


@pytest.fixture
def loaded(monkeypatch):
    """Loads such an engine; types are not checked, for parts of models stand for models."""

    def load(device="cpu", *, can_fork=True, workers=None, cores=4, **runtime):
        monkeypatch.setattr(engine, "ServedModel", Model)
        monkeypatch.setattr(engine, "Workers", Workers)
        monkeypatch.setattr(engine, "Scheduler", Scheduler)
        monkeypatch.setattr(engine, "CAN_FORK", can_fork)
        monkeypatch.setattr(engine, "choose_device", lambda runtime: torch.device(device))
        monkeypatch.setattr(
            engine,
            "choose_workers",
            lambda workers, device, threads: workers or (1 if threads is not None else cores),
        )
        monkeypatch.setattr(
            engine, "Engine", lambda model, runner: SimpleNamespace(model=model, runner=runner)
        )
        return engine.load_engine(
            Path("m"), "observer", workers=workers, runtime=DecodingRuntime(**runtime), limits=LIMITS
        )

    jaxtyping.config.update("jaxtyping_disable", True)
    yield load
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(
    ("given", "number", "threads"),
    [
        ({}, 4, 1),
        ({"workers": 2}, 2, 1),
        ({"threads": 3}, 1, 3),
        ({"workers": 2, "threads": 3}, 2, 3),
        ({"workers": 1}, 1, 1),
    ],
    ids=str,
)
def test_workers_are_as_many_as_there_are_cores_or_as_are_asked_for(loaded, given, number, threads):
    found = loaded(**given)
    assert isinstance(found.runner, Workers)
    assert found.runner.given == (number, threads, LIMITS, "observer")
    assert (found.model.path, found.model.runtime.threads) == (Path("m"), 1), (
        "a fork has no threads of its own"
    )


@pytest.mark.parametrize(
    "given",
    [{"workers": 0}, {"device": "cuda"}, {"can_fork": False}, {"device": "cuda", "workers": 0}],
    ids=str,
)
def test_a_thread_answers_where_there_are_no_workers(loaded, given):
    found = loaded(threads=2, **given)
    assert isinstance(found.runner, Scheduler)
    assert found.runner.given == (LIMITS, "observer")
    assert (found.model.prepared, found.model.runtime.threads) == (True, 2)


@pytest.mark.parametrize("given", [{"device": "cuda"}, {"can_fork": False}], ids=str)
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_elsewhere_are_refused(loaded, given, workers):
    with pytest.raises(UserError, match=f"--workers {workers}: workers are for a CPU and Linux") as caught:
        loaded(workers=workers, **given)
    assert caught.value.hint == "leave out --workers"
