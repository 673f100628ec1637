"""A compiler that failed is not tried at each start, but whenever it may have changed."""

import json
import os
import shlex
import time

import pytest

from regard.errors import RunError
from regard.fast.native import build, failed_build
from regard.fast.native.build import built, try_again

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no such commands")


@pytest.fixture
def failing(tmp_path):
    """A compiler that says so and fails; each run of it adds a line to a file."""
    command = tmp_path / "failing"
    runs = tmp_path / "runs"
    command.write_text(f"#!/bin/sh\necho >> {shlex.quote(str(runs))}\necho error: no stdio.h >&2\nexit 1\n")
    command.chmod(0o700)
    return command, lambda: runs.read_text().count("\n")


@pytest.fixture
def forgetful():
    """Kernels are looked for again before the test and after it."""
    caches = (build.library, build._found)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def fails(command, folder):
    with pytest.raises(RunError, match=r"no stdio\.h") as caught:
        built((str(command),), folder)
    return caught.value


def test_it_is_run_once_and_its_error_is_the_same_at_the_next_start(failing, tmp_path):
    command, runs = failing
    first = fails(command, tmp_path / "cache")
    count = runs()
    second = fails(command, tmp_path / "cache")
    assert runs() == count
    assert second.message == first.message
    assert "regard doctor" in second.hint


def test_it_is_run_again_when_it_was_installed_again_or_a_day_has_passed(failing, tmp_path, monkeypatch):
    command, runs = failing
    fails(command, tmp_path / "cache")
    count = runs()
    os.utime(command, (0, 0))
    fails(command, tmp_path / "cache")
    assert runs() > count
    count, now = runs(), time.time()
    monkeypatch.setattr(failed_build.time, "time", lambda: now + failed_build.DAY)
    fails(command, tmp_path / "cache")
    assert runs() > count


@pytest.mark.usefixtures("forgetful")
def test_it_is_run_again_when_that_is_asked_for(failing, tmp_path, monkeypatch):
    command, runs = failing
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(command))
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    assert build.why_none()
    count = runs()
    try_again()
    assert build.why_none()
    assert runs() > count


@pytest.mark.parametrize("content", ["", "[]", json.dumps({"compiler": 1}), "\xff"])
def test_a_damaged_note_is_no_note(failing, tmp_path, content):
    command, runs = failing
    fails(command, tmp_path / "cache")
    count = runs()
    (note,) = (tmp_path / "cache").glob("failed-*.json")
    note.write_text(content, "latin-1")
    fails(command, tmp_path / "cache")
    assert runs() > count
