"""Updates are fastest with the chosen number of threads; fewer are preferred if it hardly matters."""

import time

import pytest
import torch

from regard.training import threads as threads_file
from regard.training.threads import choose_threads, threads, unchanged_threads


@pytest.fixture
def taking(monkeypatch):
    """Makes updates that take so long by the number of threads; and the numbers that they are called with."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def made(seconds):
        counts = []

        def update():
            counts.append(torch.get_num_threads())
            now[0] += seconds[torch.get_num_threads()]

        return update, counts

    return made


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({1: 0.02, 2: 0.01, 4: 0.005}, 4),
        ({1: 0.02, 2: 0.01, 4: 0.03}, 2),
        ({1: 0.005, 2: 0.05, 4: 0.05}, 1),
        ({1: 0.0301, 2: 0.03, 4: 0.0299}, 1),  # more threads gain next to nothing
        ({1: 11.0, 2: 10.0, 4: 10.0}, 1),  # a tenth is the limit
        ({1: 11.1, 2: 10.0, 4: 10.0}, 2),
    ],
)
def test_the_fastest_number_is_chosen(taking, seconds, chosen):
    with threads(4):
        update, counts = taking(seconds)
        assert choose_threads(update, 4) == chosen
        assert set(counts) == {1, 2, 4}
        assert torch.get_num_threads() == 4


def test_quick_updates_are_measured_five_times(taking):
    with threads(2):
        update, counts = taking({1: 0.02, 2: 0.01})
        choose_threads(update, 2)
    assert sorted(counts) == [1] * 5 + [2] * 6  # the first allocates memory


def test_a_number_that_is_no_power_of_two_can_be_chosen(taking):
    with threads(3):
        update, _ = taking({1: 0.03, 2: 0.03, 3: 0.001})
        assert choose_threads(update, 3) == 3


def test_nothing_is_measured_for_one_thread():
    assert choose_threads(lambda: pytest.fail("measured"), 1) == 1


def test_slow_updates_are_measured_once(monkeypatch, taking):
    monkeypatch.setattr(threads_file, "SECONDS", 0.0)
    with threads(2):
        update, counts = taking({1: 0.001, 2: 0.001})
        choose_threads(update, 2)
    assert sorted(counts) == [1, 2, 2]  # the first allocates memory


def test_no_round_begins_after_three_seconds(taking):
    with threads(2):
        for seconds, rounds in (({1: 1.0, 2: 2.0}, 1), ({1: 1.0, 2: 1.75}, 2), ({1: 0.5, 2: 0.25}, 4)):
            update, counts = taking(seconds)
            choose_threads(update, 2)
            assert counts.count(1) == rounds


def test_what_sets_another_number_changes_it_within_alone():
    before = torch.get_num_threads()
    with unchanged_threads():
        torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before
