"""API keys: which requests are taken, how many in a minute, and which files of keys are read."""

import time

import pytest

from regard.errors import FolderError, UserError
from regard.serving.http_error import HttpProblem
from regard.serving.keys import MAX_FILE_BYTES, ApiKeys, RateLimit, read_keys

ONE, OTHER = "a" * 16, "b" * 16


@pytest.fixture
def clock(monkeypatch):
    """Moves the clock on."""
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def passes(seconds):
        now[0] += seconds

    return passes


def problem(keys, key):
    with pytest.raises(HttpProblem) as caught:
        keys.check(key)
    return caught.value


def test_a_burst_is_a_minute_s_requests_and_then_they_come_back_evenly(clock):
    limit = RateLimit(per_minute=30)  # one in two seconds
    assert [limit.take() for _ in range(30)] == [0.0] * 30
    assert limit.take() == pytest.approx(2.0)
    clock(1.5)
    assert limit.take() == pytest.approx(0.5)
    clock(0.5)
    assert limit.take() == 0.0
    assert limit.take() == pytest.approx(2.0)
    clock(6)
    assert [limit.take() for _ in range(3)] == [0.0] * 3
    assert limit.take() == pytest.approx(2.0)
    clock(10_000)
    assert [limit.take() for _ in range(30)] == [0.0] * 30, "no more than a minute's are saved"
    assert limit.take() > 0


def test_without_keys_everybody_may_as_often_as_all_together_may(clock):
    assert not ApiKeys([]).required
    for _ in range(100):
        ApiKeys([], per_minute=0).check(None)
        ApiKeys([]).check("any")
    keys = ApiKeys([], per_minute=2)
    keys.check(None)
    keys.check("another")
    found = problem(keys, None)
    assert (found.status, found.code, found.retry_after) == (429, "rate_limit", 30)
    assert "30 s" in found.hint


def test_each_key_has_a_limit_of_its_own(clock):
    keys = ApiKeys([ONE, OTHER], per_minute=2)
    assert keys.required
    for key in (ONE, ONE, OTHER, OTHER):
        keys.check(key)
    assert problem(keys, ONE).status == problem(keys, OTHER).status == 429
    clock(30)
    keys.check(ONE)
    assert problem(keys, ONE).retry_after == 30
    keys.check(OTHER)
    for _ in range(100):
        ApiKeys([ONE]).check(ONE)


@pytest.mark.parametrize(
    ("key", "status", "code"),
    [(None, 401, "missing_api_key"), ("", 401, "missing_api_key"), ("x", 401, "invalid_api_key"),
     (ONE[:-1], 401, "invalid_api_key"), (ONE + "a", 401, "invalid_api_key"),
     ("\ud800", 401, "invalid_api_key")],
)  # fmt: skip
def test_a_request_without_a_known_key_is_refused(key, status, code):
    found = problem(ApiKeys([OTHER, ONE]), key)
    assert (found.status, found.code) == (status, code)
    assert found.hint


def test_keys_are_lines_of_a_file(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_bytes(f"\ufeff# of the team\n\n  {ONE} \r\n#{OTHER}\n{OTHER}".encode())
    assert read_keys(file) == [ONE, OTHER]
    file.write_text(f"{ONE}\n" + "#" * (MAX_FILE_BYTES - 17), "utf-8")
    assert read_keys(file) == [ONE], "as large as a file may be"


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"# none\n\n", UserError, "has no API key"),
        (b"", UserError, "has no API key"),
        (b"\n" + b"a" * 15, UserError, "keys.txt:2: a key of 15 characters, less than 16"),
        (b"\xff\xfe", FolderError, "is not UTF-8"),
        (b"#" * (MAX_FILE_BYTES + 1), UserError, "has more than 1,000,000 bytes"),
        (None, FolderError, "No such file"),
    ],
    ids=["comments", "empty", "short", "bytes", "large", "missing"],
)
def test_a_file_without_keys_is_refused(tmp_path, content, kind, message):
    file = tmp_path / "keys.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(kind, match=message) as caught:
        read_keys(file)
    assert caught.value.hint
