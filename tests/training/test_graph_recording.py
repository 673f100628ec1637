"""How a pass is recorded on a GPU: in which order, with whose random numbers, and with how much memory.

The parts of CUDA are imitated; `test_graphed_pass.py` has what is computed.
"""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from regard.fast.training import fused
from regard.training import graphed_pass
from regard.training.graphed_pass import (
    GraphedPass,
    Recorded,
    RecordingMemory,
    _generator_state,
    _new_generator,
    _set_generator_state,
    capture,
    has_room,
)
from tests.training.test_graphed_pass import batches, model, noisy, recordings, updates

__all__ = ["model", "recordings"]
GPU = torch.device("cuda", 0)


class Stream:
    """A stream that writes down for which one it waits."""

    device = GPU

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def wait_stream(self, other):
        self.calls.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def calls(monkeypatch):
    """What is asked of a GPU, in order; `torch.cuda` is imitated."""
    found = []
    here = Stream("the current stream", found)

    class Graph:
        def capture_begin(self, pool, capture_error_mode):
            found.append(f"begin in {pool}")

        def capture_end(self):
            found.append("end")

        def replay(self):
            found.append("replay")

    @contextlib.contextmanager
    def stream(used):
        found.append(f"on {used.name}")
        yield
        found.append(f"off {used.name}")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: here)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: found.append("give back"))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("its stream", found))
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "its pool")
    return found


def test_a_pass_is_recorded_on_a_stream_of_its_own_which_waits_and_is_waited_for(calls):
    replay = capture(lambda: calls.append("run"), RecordingMemory(GPU))
    assert calls == [
        "give back",
        "its stream waits for the current stream",
        "on its stream",
        "begin in its pool",
        "run",
        "end",
        "off its stream",
        "the current stream waits for its stream",
    ]
    replay()
    assert calls[-1] == "replay"


def test_what_is_recorded_is_a_pass_and_copies_of_its_gradients(calls, model):
    memory, run, (batch,) = RecordingMemory(torch.device("cpu")), noisy(model), batches(1)
    memory.stream, memory.pool = Stream("its stream", calls), "its pool"
    with fused(model):
        recorded = Recorded(batch, list(model.parameters()), 3, memory)
        recorded._seeds.draw()
        expected = recorded._pass(run)
        memory.reserve(expected[1])
        _, result, gradients = recorded._capture(run)
    assert torch.equal(result, expected[0])
    for found, other in zip(gradients, expected[1], strict=True):
        assert torch.equal(found, other)
        assert memory.holds(found), "the pool is written by later passes"
        assert not memory.holds(other)


def test_an_error_within_a_recording_ends_it_and_is_the_one_that_is_raised(calls):
    def fail():
        raise ValueError("the first error")

    memory = RecordingMemory(GPU)
    with pytest.raises(ValueError, match="the first error"):
        capture(fail, memory)
    assert calls[-1] == "end"


def test_the_run_before_a_recording_is_on_the_same_stream(calls, model, recordings):
    """There matrix products have the workspace that the recording uses."""
    passes, run, (first, second, third) = GraphedPass(model), noisy(model), batches(3)

    def noted(batch):
        calls.append("run")
        return run(batch)

    with fused(model):
        passes(noted, first, ())
        passes._memory.stream = Stream("its stream", calls)
        passes(noted, second, ())
        assert calls == ["run", "run"]
        passes(noted, third, ())
    assert calls[2:] == [
        "its stream waits for the current stream",
        "on its stream",
        "run",
        "off its stream",
        "the current stream waits for its stream",
        *["run"] * 2,  # the imitated recording, and its first replay
    ]


@pytest.mark.parametrize(("free", "has"), [(59, False), (60, False), (61, True)])
def test_there_is_room_if_so_many_times_the_memory_of_a_pass_is_free(calls, monkeypatch, free, has):
    """A pass has used 20 bytes at most beyond the 100 that are used now."""
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 120)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 1000))
    assert has_room(GPU, 3.0) is has
    assert calls == ["give back"], "what is held without use is free too"
    assert has_room(torch.device("cpu"), 3.0), "a CPU is not asked"


def test_the_random_numbers_of_a_device_are_those_of_its_generator(monkeypatch):
    state, cpu = torch.zeros(3, dtype=torch.uint8), torch.device("cpu")
    given = []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: (state, given.append(device))[0])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda new, device: given.append((new, device)))
    found = _generator_state(GPU)
    assert found is state
    _set_generator_state(GPU, found)
    assert given == [GPU, (state, GPU)]
    assert _generator_state(cpu) is None
    _set_generator_state(cpu, None)
    assert len(given) == 2


@pytest.mark.parametrize(("device", "number"), [(torch.device("cuda"), 1), (torch.device("cuda", 0), 0)])
def test_a_recording_that_failed_leaves_the_generator_another_state(monkeypatch, device, number):
    states = {0: "old", 1: "old"}
    generators = [
        SimpleNamespace(graphsafe_set_state=lambda new, number=number: states.update({number: new}))
        for number in states
    ]
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch, "Generator", lambda of: SimpleNamespace(graphsafe_get_state=lambda: "new"))
    _new_generator(torch.device("cpu"))
    assert states == {0: "old", 1: "old"}
    _new_generator(device)
    assert states == {0: "old", 1: "old"} | {number: "new"}


@pytest.fixture
def generator(monkeypatch):
    """A generator in place of a GPU's, from which a pass draws besides its seeds."""
    found = torch.Generator().manual_seed(3)
    monkeypatch.setattr(graphed_pass, "_generator_state", lambda device: found.get_state())
    monkeypatch.setattr(graphed_pass, "_set_generator_state", lambda device, state: found.set_state(state))
    return found


def drawing(model, generator):
    """A pass that also has random numbers of the device."""

    def run(batch):
        return noisy(model)(batch) * torch.rand((), generator=generator)

    return run


def results(model, run, generator):
    """What updates by this pass give, as it is and recorded."""
    passes, found = GraphedPass(model), []
    with fused(model):
        for function in (run, lambda batch: passes(run, batch, ())):
            generator.manual_seed(3)
            found.append(updates(model, function, [[batch] for batch in batches(6)]))
    return found


def test_a_recorded_pass_has_the_random_numbers_of_the_pass(model, recordings, generator):
    plain, recorded = results(model, drawing(model, generator), generator)
    assert recordings == {"recorded": 1, "replayed": 4}
    torch.testing.assert_close(recorded, plain)


def test_after_a_recording_that_failed_random_numbers_are_those_of_the_pass(
    model, recordings, generator, monkeypatch
):
    renewed = []

    def fail(self, run):
        self._pass(run)
        raise RuntimeError("not permitted")

    monkeypatch.setattr(Recorded, "_capture", fail)
    monkeypatch.setattr(graphed_pass, "_new_generator", renewed.append)
    with pytest.warns(UserWarning, match="not permitted"):
        plain, refused = results(model, drawing(model, generator), generator)
    torch.testing.assert_close(refused, plain)
    assert len(renewed) == 1


def test_a_small_difference_is_refused_where_the_pass_itself_has_none(
    model, recordings, generator, monkeypatch
):
    """Only a pass that differs from itself, with the same random numbers, may differ from its replay."""
    usual = Recorded._capture

    def inexact(self, run):
        replay, result, gradients = usual(self, run)
        return lambda: (replay(), result.mul_(1.0001)), result, gradients

    monkeypatch.setattr(Recorded, "_capture", inexact)
    with pytest.warns(UserWarning, match="a replay of it gives other numbers"):
        plain, refused = results(model, drawing(model, generator), generator)
    torch.testing.assert_close(refused, plain)
