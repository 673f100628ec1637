"""The access log: one line for each request, whatever becomes of the stream."""

import io
import json
import sys

import pytest

from regard.serving import access_log
from regard.serving.access_log import AccessLog, to_stderr


def test_a_line_has_the_time_and_what_is_known(monkeypatch):
    monkeypatch.setattr(access_log.time, "time", lambda: 86_400.25)
    stream = io.StringIO()
    log = AccessLog(stream)
    log.write(id="a", status=200, model=None, texts=0)
    log.write(id="é")
    one, other = stream.getvalue().splitlines()
    assert json.loads(one) == {"time": "1970-01-02T00:00:00.250Z", "id": "a", "status": 200, "texts": 0}
    assert json.loads(other)["id"] == "é"


def test_without_a_stream_nothing_is_written_and_texts_are_left_out_unless_they_are_asked_for():
    AccessLog().write(id="a")
    assert not AccessLog().texts
    assert (to_stderr().stream, to_stderr().texts, to_stderr(texts=True).texts) == (sys.stderr, False, True)


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_requests_are_answered_though_the_stream_is_full_or_closed(error):
    class Full(io.StringIO):
        def write(self, text):
            raise error

    AccessLog(Full()).write(id="a")


def test_each_line_is_sent_at_once():
    flushed = []

    class Stream(io.StringIO):
        def flush(self):
            flushed.append(self.getvalue())

    AccessLog(Stream()).write(id="a")
    assert flushed
    assert flushed[0].endswith("\n")
