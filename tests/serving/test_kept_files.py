"""Translated files are kept for a while, and no more than there is room for."""

import time

import pytest

from regard.serving import kept_files
from regard.serving.kept_files import SECONDS, KeptFiles


@pytest.fixture
def now(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_file_is_found_by_its_id_for_ten_minutes(now):
    files = KeptFiles()
    identifier = files.keep("a.txt", "Grüße\ud800", 7)
    found = files.get(identifier)
    assert (found.name, found.characters) == ("a.txt", 7)
    assert found.content == "Grüße\ud800".encode("utf-8", "surrogatepass")
    assert len(identifier) >= 40
    assert identifier != files.keep("a.txt", "Grüße", 7)
    assert files.get("another") is None
    now[0] += SECONDS
    assert files.get(identifier) is found
    now[0] += 1
    assert files.get(identifier) is None


def test_what_nobody_has_fetched_leaves_memory_when_another_file_comes(now):
    files = KeptFiles()
    files.keep("a.txt", "a", 1)
    now[0] += SECONDS + 1
    identifier = files.keep("b.txt", "b", 1)
    assert [*files._files] == [identifier]


def test_the_oldest_make_room_and_what_fills_all_of_it_is_kept(now, monkeypatch):
    monkeypatch.setattr(kept_files, "MOST_BYTES", 10)
    files = KeptFiles()
    first, second, third = (files.keep(name, "12345", 5) for name in "abc")
    assert files.get(first) is None
    assert None not in (files.get(second), files.get(third)), "ten bytes have room"
    large = files.keep("d", "1" * 11, 11)
    assert [files.get(each) is None for each in (second, third, large)] == [True, True, False]
