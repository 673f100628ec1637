"""A process with looks reports that it has started, or why it could not."""

import multiprocessing

import pytest

from regard.errors import RegardError, RunError
from regard.serving import look_process
from regard.serving.look_process import _Failed, _Started, _started


@pytest.fixture
def ends():
    own, its = multiprocessing.Pipe(duplex=False)
    yield own, its
    own.close()
    its.close()


def test_a_process_that_has_started_reports_where_it_is(ends):
    own, its = ends
    its.send(_Started(8123, "secret"))
    found = _started(own)
    assert (found.port, found.token) == (8123, "secret")


def test_one_that_cannot_load_its_model_reports_why(ends):
    own, its = ends
    its.send(_Failed("m has no looks", "give another model"))
    with pytest.raises(RegardError, match="m has no looks") as caught:
        _started(own)
    assert caught.value.hint == "give another model"


def test_one_that_dies_or_sends_something_else_has_not_started(ends):
    own, its = ends
    its.send("hello")
    its.close()
    for _ in range(2):
        with pytest.raises(RunError, match="did not start") as caught:
            _started(own)
        assert caught.value.hint


def test_one_that_sends_nothing_is_not_waited_for_any_longer(ends, monkeypatch):
    monkeypatch.setattr(look_process, "START_SECONDS", 0.0)
    with pytest.raises(RunError, match="did not start"):
        _started(ends[0])
