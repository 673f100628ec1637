"""A process ends if another one gives no sign of life; not if that one has left, or works long."""

import contextlib
import threading
import time

import pytest
from torch.distributed import FileStore, TCPStore

from regard.distributed import heartbeat as module
from regard.distributed.group import SINGLE, Group
from regard.distributed.heartbeat import heartbeat

SILENCE = 0.6


@pytest.fixture
def ended(monkeypatch):
    """The exit codes with which this process would have ended. It continues, and so does the warning."""
    codes = set()
    monkeypatch.setattr(module.os, "_exit", codes.add)
    monkeypatch.setattr(module, "INTERVAL", 0.05)
    monkeypatch.setattr(module, "SILENCE", SILENCE)
    return codes


@pytest.fixture
def store():
    return TCPStore("localhost", 0, is_master=True, wait_for_workers=False)


def member(store, rank, size=2):
    return Group(rank=rank, size=size, store=store)


def test_processes_that_give_signs_of_life_go_on(ended, store):
    warnings = []
    with contextlib.ExitStack() as stack:
        for rank in range(3):
            stack.enter_context(heartbeat(member(store, rank, 3), warnings.append))
        time.sleep(3 * SILENCE)
    assert not ended
    assert not warnings


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.nightly), 1])
def test_a_silent_process_ends_the_other(ended, store, rank):
    warnings = []
    with heartbeat(member(store, rank), warnings.append):
        time.sleep(2.5 * SILENCE)
    assert ended == {1}
    assert set(warnings) == {f"process {1 - rank} has given no sign of life for 1 seconds: this one ends"}


def test_a_process_that_has_left_is_not_missed(ended, store):
    warnings = []
    with heartbeat(member(store, 0), warnings.append):
        with heartbeat(member(store, 1), warnings.append):
            time.sleep(SILENCE / 2)
        time.sleep(3 * SILENCE)
    assert not ended
    assert not warnings


def test_a_store_that_no_longer_answers_counts_as_silence(ended, store, monkeypatch):
    """The store is in the first process; without an answer its other thread waits for ever."""
    forever = threading.Event()

    class Deaf:
        def clone(self):
            return self

        def add(self, key, amount):
            forever.wait(10 * SILENCE)

    warnings = []
    with heartbeat(member(Deaf(), 1), warnings.append):
        time.sleep(2.5 * SILENCE)
    forever.set()
    assert ended == {1}
    assert warnings


def test_processes_of_one_machine_and_single_ones_are_not_watched(tmp_path, ended):
    before = threading.active_count()
    for group in (SINGLE, member(FileStore(str(tmp_path / "meeting"), 2), 0)):
        with heartbeat(group, print):
            assert threading.active_count() == before
