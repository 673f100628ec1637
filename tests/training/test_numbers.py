"""The numbers of an update, read when they are there."""

import pytest
import torch

from regard.training import numbers
from regard.training.numbers import Numbers, is_asynchronous


@pytest.mark.parametrize(
    ("name", "queues"), [("cpu", False), ("meta", False), ("mps", False), ("cuda", True), ("xpu", True)]
)
def test_only_devices_with_a_queue_of_their_own_make_the_processor_wait(name, queues):
    assert is_asynchronous(torch.device(name)) is queues


def test_numbers_are_read_in_order_whatever_their_shapes():
    parts = torch.tensor(1.5), torch.tensor([[2.0, 3.0], [4.0, 5.0]]), torch.tensor([1.0]).double()
    assert Numbers(*parts).read() == [1.5, 2.0, 3.0, 4.0, 5.0, 1.0]
    assert Numbers(parts[1]).read() == [2.0, 3.0, 4.0, 5.0]


def test_numbers_of_a_queue_are_read_in_the_same_order(monkeypatch):
    """They are copied together, in float64."""
    monkeypatch.setattr(numbers, "is_asynchronous", lambda device: True)
    parts = torch.tensor(1.5), torch.tensor([[2.0, 3.0], [4.0, 5.0]]), torch.tensor([2**24 + 1])
    assert Numbers(*parts).read() == [1.5, 2.0, 3.0, 4.0, 5.0, 2.0**24 + 1]


def test_numbers_of_a_gpu_are_waited_for_when_they_are_read(monkeypatch):
    """They are copied to page-locked memory behind what computes them; `torch.cuda` is imitated."""
    calls, empty = [], torch.empty

    class Event:
        def record(self, stream):
            calls.append(f"mark on {stream}")

        def synchronize(self):
            calls.append("wait")

    class Pinned(torch.Tensor):
        def copy_(self, other, non_blocking=False):
            calls.append(f"copy, later: {non_blocking}")
            return super().copy_(other)

    class OnGPU:
        device = torch.device("cuda")

        def __init__(self, *values):
            self.double = torch.tensor(values).double

    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the stream of {device}")
    monkeypatch.setattr(
        torch,
        "empty",
        lambda *size, pin_memory, **more: (
            calls.append(f"pinned: {pin_memory}"),
            empty(*size, **more).as_subclass(Pinned),
        )[1],
    )
    found = Numbers(OnGPU(1.5), OnGPU(2.0, 3.0))
    assert calls == ["pinned: True", "copy, later: True", "mark on the stream of cuda"]
    assert found.read() == [1.5, 2.0, 3.0]
    assert calls[3:] == ["wait"]
