"""Updates are fastest with the chosen number of threads; fewer are preferred if it hardly matters."""

import time

import pytest
import torch

from regard.training import threads as threads_file
from regard.training.threads import choose_threads, threads


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(threads_file, "ROUNDS", 3)


def taking(seconds):
    """An update that takes so long, by the number of threads; the numbers that it was called with."""
    counts = []

    def update():
        counts.append(torch.get_num_threads())
        time.sleep(seconds[torch.get_num_threads()])

    return update, counts


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({1: 0.02, 2: 0.01, 4: 0.005}, 4),
        ({1: 0.02, 2: 0.01, 4: 0.03}, 2),
        ({1: 0.005, 2: 0.05, 4: 0.05}, 1),
        ({1: 0.0301, 2: 0.03, 4: 0.0299}, 1),  # more threads gain next to nothing
    ],
)
def test_the_fastest_number_is_chosen(seconds, chosen):
    with threads(4):
        update, counts = taking(seconds)
        assert choose_threads(update, 4) == chosen
        assert set(counts) == {1, 2, 4}
        assert torch.get_num_threads() == 4


def test_a_number_that_is_no_power_of_two_can_be_chosen():
    with threads(3):
        update, _ = taking({1: 0.03, 2: 0.03, 3: 0.001})
        assert choose_threads(update, 3) == 3


def test_nothing_is_measured_for_one_thread():
    assert choose_threads(lambda: pytest.fail("measured"), 1) == 1


def test_slow_updates_are_measured_once(monkeypatch):
    monkeypatch.setattr(threads_file, "SECONDS", 0.0)
    with threads(2):
        update, counts = taking({1: 0.001, 2: 0.001})
        choose_threads(update, 2)
    assert sorted(counts) == [1, 2, 2]  # the first allocates memory
