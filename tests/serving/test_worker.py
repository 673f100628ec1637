"""A worker, in this process: what it tells the server of the requests that it gets."""

import threading
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest

from regard.errors import DataError, RunError
from regard.serving.scheduler import QueueFull, QueueLimits
from regard.serving.worker import KEPT_BATCHES, Worker
from regard.serving.worker_messages import Answered, Cancel, Ended, Part, Submit
from regard.verbs.serve import AnswerSettings
from tests.serving.made_models import MadeModel
from tests.serving.test_running_jobs import Counter
from tests.serving.test_scheduler import Echo


class Server:
    """The server's end of a worker's connection."""

    def __init__(self, answerer, limits=None):
        self.own, its = Pipe()
        self.worker = Worker(its, MadeModel(answerer), limits or QueueLimits())
        self.thread = threading.Thread(target=self.worker.run, daemon=True)
        self.thread.start()

    def submit(self, number, *pieces, places=(), in_parts=False):
        settings = AnswerSettings(task="embed")
        self.own.send(
            Submit(
                number=number,
                settings=settings,
                pieces=pieces,
                places=places,
                in_parts=in_parts,
                deadline=float("inf"),
            )
        )

    def until_ended(self, number):
        """The messages until this request has ended."""
        found = []
        while not any(isinstance(each, Ended) and each.number == number for each in found):
            assert self.own.poll(10), found
            found += self.own.recv()
        return found

    def close(self):
        self.own.close()
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def exits(monkeypatch):
    """The codes with which a worker would have ended its process."""
    codes = []
    monkeypatch.setattr("regard.serving.worker.os", SimpleNamespace(_exit=codes.append))
    return codes


@pytest.fixture
def echo():
    return Echo()


@pytest.fixture
def server(echo):
    made = Server(echo)
    yield made
    made.close()


def test_each_answer_is_reported_with_its_place_and_then_the_end_with_what_was_computed(server):
    server.submit(7, "a", "b", places=[4, 2])
    *answers, ended = server.until_ended(7)
    assert answers == [Answered(7, 4, "a"), Answered(7, 2, "b")]
    assert (ended.number, ended.error, ended.queued) == (7, None, 0)
    assert ended.started is not None
    [(rows, seconds)] = ended.batches
    assert rows == 2
    assert seconds >= 0
    server.submit(8, "c")
    assert [rows for rows, _ in server.until_ended(8)[-1].batches] == [1], "each batch is reported once"


def test_parts_are_reported_before_the_end():
    counter = Counter()
    server = Server(counter)
    server.submit(1, "3", in_parts=True)
    found = server.until_ended(1)
    assert found[:-1] == [Part(1, "2"), Part(1, "1"), Part(1, "0"), Answered(1, 0, "3")]
    server.close()


def test_a_cancelled_request_ends_at_once_and_once(server, echo):
    echo.gate.clear()
    server.submit(1, "held")
    assert echo.begun.wait(10)
    server.submit(2, "waits")
    server.own.send(Cancel(2))
    server.own.send(Cancel(2))  # it has ended: nothing is reported
    server.own.send(Cancel(99))
    [ended] = server.until_ended(2)
    assert (ended.error, ended.started, ended.queued) == (None, None, 0)
    echo.gate.set()
    assert server.until_ended(1)[0] == Answered(1, 0, "held")


def test_a_request_that_has_no_place_is_refused_and_the_length_of_the_queue_is_reported(echo):
    server = Server(echo, QueueLimits(requests=1))
    echo.gate.clear()
    server.submit(1, "held")
    assert echo.begun.wait(10)
    server.submit(2, "waits")
    server.submit(3, "too many")
    [ended] = server.until_ended(3)
    assert isinstance(ended.error, QueueFull)
    assert ended.queued == 1
    echo.gate.set()
    server.until_ended(2)
    server.close()


def test_an_error_of_the_program_is_logged_here_and_reported_without_its_text(server, echo, capsys):
    server.submit(1, "bad")
    ended = server.until_ended(1)[-1]
    assert type(ended.error) is RunError
    assert "ValueError: bad" in capsys.readouterr().err
    echo.answers = lambda pieces, first: (_ for _ in ()).throw(DataError("too long", "shorten it"))
    server.submit(2, "known")
    assert isinstance(server.until_ended(2)[-1].error, DataError)
    assert capsys.readouterr().err == ""


def test_no_more_batches_are_kept_than_have_room(server, echo):
    for number in range(KEPT_BATCHES + 3):
        server.worker.batch(number, 0.0)
    server.worker._end(5, DataError("a", "b"))
    [reported] = server.worker._messages
    assert [rows for rows, _ in reported.batches] == list(range(3, KEPT_BATCHES + 3))
    assert reported.queued == 0


def test_a_worker_whose_server_has_ended_refuses_what_it_has_and_ends(echo, exits, monkeypatch):
    server = Server(echo)
    thread = server.worker._scheduler._thread
    usual = thread.join

    def join(seconds):
        echo.gate.set()  # when the end has begun
        usual(seconds)

    monkeypatch.setattr(thread, "join", join)
    echo.gate.clear()
    server.submit(1, "held")
    assert echo.begun.wait(10)
    server.submit(2, "waits")
    assert exits == []
    server.own.close()
    server.thread.join(10)
    assert echo.batches == [(["held"], 0)]
    assert set(exits) == {1}
    assert not server.worker._scheduler.busy
