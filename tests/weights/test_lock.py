import errno
import os
import threading
import time
from types import SimpleNamespace

import pytest

from regard.errors import FolderError
from regard.weights import lock
from regard.weights.checkpoint import RunFolder
from regard.weights.lock import locked
from tests.warm_process import start_python

HOLD = """import os, sys
from pathlib import Path
from regard.weights.lock import locked
with locked(Path(sys.argv[1])):
    print(os.getpid(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path, tmp_path_factory):
    """Another process that holds the lock of a folder, and its number."""
    script = tmp_path_factory.mktemp("holder") / "hold.py"
    script.write_text(HOLD, "utf-8")
    other = start_python([script, tmp_path])
    yield other, int(other.stdout.readline())
    other.kill()
    other.communicate()


def test_a_second_process_is_refused_with_the_holder_of_the_lock(tmp_path, holder):
    other, number = holder
    with pytest.raises(FolderError, match=f"is in use by process {number}") as raised:
        locked(tmp_path).__enter__()
    assert raised.value.hint
    other.kill()
    other.wait(30)
    with locked(tmp_path):  # the lock dies with its holder
        pass


def test_a_second_holder_in_the_same_process_is_refused_too(tmp_path):
    again = pytest.raises(FolderError, match=f"in use by process {os.getpid()}")
    with locked(tmp_path), again, locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_lock_that_is_taken_is_refused_at_once_if_no_time_to_wait_is_given(tmp_path, monkeypatch):
    waited = []
    with locked(tmp_path):
        monkeypatch.setattr(lock.time, "sleep", waited.append)
        for again in (locked(tmp_path), RunFolder(tmp_path).lock()):
            with pytest.raises(FolderError, match="is in use"), again:
                pass
    assert waited == []


def test_a_lock_that_is_given_back_in_time_is_waited_for(tmp_path, holder):
    other, _ = holder
    began = time.monotonic()
    with pytest.raises(FolderError, match="is in use"), locked(tmp_path, wait=0.2):
        pass
    threading.Timer(0.5, other.kill).start()
    with locked(tmp_path, wait=30.0):
        assert 0.5 < time.monotonic() - began < 20


def test_an_attempt_follows_each_pause_until_the_time_is_over_and_none_after(tmp_path, monkeypatch):
    times, waited = iter([10.0, 10.2, 10.5]), []
    with locked(tmp_path):
        own = SimpleNamespace(monotonic=lambda: next(times), sleep=waited.append)
        monkeypatch.setattr(lock, "time", own)  # not the module's functions: other threads call them
        with pytest.raises(FolderError, match="is in use"), locked(tmp_path, wait=0.5):
            pass
    assert waited == [lock.RETRY_SECONDS]


def test_of_a_damaged_file_of_a_lock_the_error_has_the_beginning_only(tmp_path):
    with locked(tmp_path):
        (tmp_path / ".lock").write_text("1" * 100)
        with pytest.raises(FolderError, match=r"is in use by process 1{20}$"), locked(tmp_path):
            pass


def test_an_error_inside_gives_the_lock_back(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    with locked(tmp_path):
        pass


def test_a_folder_that_is_not_there_cannot_be_locked(tmp_path):
    with pytest.raises(FolderError, match="cannot use"), locked(tmp_path / "absent"):
        pass


def test_the_file_of_the_lock_names_its_holder_alone_and_others_may_lock_it_later(tmp_path):
    """A longer number of an earlier holder is gone; users of a group share the folder of a run."""
    before = os.umask(0)
    try:
        with locked(tmp_path):
            assert (tmp_path / ".lock").stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)
    (tmp_path / ".lock").write_text("123456789012345\n")
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


def test_a_disk_without_locks_is_reported(tmp_path, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock, "_acquire", refuse)
    with pytest.raises(FolderError, match="cannot be locked: No locks available") as raised, locked(tmp_path):
        pass
    assert "disk of this machine" in raised.value.hint
