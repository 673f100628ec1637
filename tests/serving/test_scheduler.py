"""The scheduler answers everything it accepts, in batches that are fair, and refuses the rest at once."""

import threading
import time

import pytest

from regard.serving.scheduler import (
    ROWS,
    SECONDS,
    Closed,
    DeadlinePassed,
    Job,
    QueueFull,
    QueueLimits,
    Scheduler,
)
from regard.verbs.serve import AnswerSettings, BatchAnswerer


class Echo(BatchAnswerer[str, str]):
    """Answers with the piece itself, when it may; keeps its batches."""

    def __init__(self, *, alone=False):
        super().__init__(AnswerSettings(task="embed"))
        self.alone, self.batches, self.gate = alone, [], threading.Event()
        self.gate.set()
        self.begun = threading.Event()

    def pieces(self, texts):
        return [[text] for text in texts]

    def answers(self, pieces, first):
        self.begun.set()
        self.gate.wait(10)
        self.batches.append((list(pieces), first))
        if any("bad" in piece for piece in pieces):
            raise ValueError("bad")
        return list(pieces)

    def joined(self, text, pieces, answers):
        return answers[0]


class Asked:
    """A job and what came of it."""

    def __init__(self, scheduler, answerer, pieces, **more):
        self.found, self.error, self.done = {}, None, threading.Event()
        self.job = Job(
            answerer=answerer,
            pieces=pieces,
            answered=self.found.__setitem__,
            finished=self._finished,
            **more,
        )
        scheduler.submit(self.job)

    def _finished(self, error):
        assert not self.done.is_set(), "finished twice"
        self.error = error
        self.done.set()

    def wait(self):
        assert self.done.wait(10)
        return [self.found[place] for place in range(len(self.found))]


@pytest.fixture
def scheduler():
    made = Scheduler(QueueLimits(requests=8, characters=1000))
    yield made
    made.close(wait=True)


def held(scheduler, answerer):
    """A first job that keeps the scheduler's thread until the gate is opened."""
    answerer.gate.clear()
    answerer.begun.clear()
    first = Asked(scheduler, answerer, ["first"])
    assert answerer.begun.wait(10)
    return first


def test_waiting_requests_share_batches_a_piece_of_each_in_turn(scheduler):
    echo = Echo()
    first = held(scheduler, echo)
    long = Asked(scheduler, echo, [f"long {number}" for number in range(ROWS + 5)])
    short = Asked(scheduler, echo, ["short"])
    echo.gate.set()
    assert [first.wait(), short.wait()] == [["first"], ["short"]]
    assert long.wait() == [f"long {number}" for number in range(ROWS + 5)]
    second, third = echo.batches[1][0], echo.batches[2][0]
    assert second[:3] == ["long 0", "short", "long 1"]
    assert (len(second), len(third)) == (ROWS, 6)


def test_pieces_of_different_sizes_do_not_share_a_batch(scheduler):
    echo = Echo()
    held(scheduler, echo)
    asked = [Asked(scheduler, echo, ["x" * size]) for size in (10, 60, 300)]
    echo.gate.set()
    for each in asked:
        each.wait()
    assert [[len(piece) for piece in batch] for batch, _ in echo.batches[1:]] == [[10, 60], [300]]


def test_a_batch_has_no_more_than_it_computes_in_its_time():
    scheduler, echo = Scheduler(), Echo()
    scheduler._seconds_per_character[False] = SECONDS / 5000
    held(scheduler, echo)
    asked = Asked(scheduler, echo, ["x" * 3000] * 3)
    echo.gate.set()
    asked.wait()
    scheduler.close(wait=True)
    assert [len(batch) for batch, _ in echo.batches] == [1, 2, 1]


def test_requests_with_other_settings_take_turns(scheduler):
    one, other = Echo(), Echo()
    held(scheduler, one)
    long = Asked(scheduler, one, ["a"] * (2 * ROWS))
    short = Asked(scheduler, other, ["b"])
    one.gate.set()
    short.wait()
    assert not long.done.is_set() or len(one.batches) == 3
    long.wait()


def test_an_answerer_that_is_alone_gets_one_request_at_a_time_and_its_places(scheduler):
    echo = Echo(alone=True)
    held(scheduler, echo)
    asked = [Asked(scheduler, echo, ["a"] * (ROWS + 2)), Asked(scheduler, echo, ["b"])]
    echo.gate.set()
    for each in asked:
        each.wait()
    assert echo.batches[1:] == [(["a"] * ROWS, 0), (["b"], 0), (["a"] * 2, ROWS)]


def test_a_failure_is_that_of_its_request_alone(scheduler):
    echo = Echo()
    held(scheduler, echo)
    good, bad = Asked(scheduler, echo, ["good"] * 3), Asked(scheduler, echo, ["bad", "fine"])
    echo.gate.set()
    assert good.wait() == ["good"] * 3
    bad.wait()
    assert isinstance(bad.error, ValueError)


def test_a_full_queue_refuses_at_once_and_says_when_to_try_again(scheduler):
    echo = Echo()
    held(scheduler, echo)
    asked = [Asked(scheduler, echo, ["a"]) for _ in range(8)]
    with pytest.raises(QueueFull) as refused:
        Asked(scheduler, echo, ["a"])
    assert refused.value.retry_after >= 1
    echo.gate.set()
    for each in asked:
        each.wait()
    Asked(scheduler, echo, ["a"]).wait()


def test_the_characters_that_wait_are_bounded_but_one_long_request_is_taken(scheduler):
    echo = Echo()
    held(scheduler, echo)
    Asked(scheduler, echo, ["x" * 5000])
    with pytest.raises(QueueFull):
        Asked(scheduler, echo, ["a"])
    echo.gate.set()


def test_a_cancelled_request_is_not_computed_and_reports_nothing(scheduler):
    echo = Echo()
    first = held(scheduler, echo)
    waiting = Asked(scheduler, echo, ["waits"])
    scheduler.cancel(waiting.job)
    scheduler.cancel(first.job)  # it is computed already, but nobody hears of it
    echo.gate.set()
    Asked(scheduler, echo, ["after"]).wait()
    assert [batch for batch, _ in echo.batches] == [["first"], ["after"]]
    assert not first.done.is_set()
    assert not waiting.done.is_set()


def test_a_request_past_its_deadline_fails(scheduler):
    echo = Echo()
    held(scheduler, echo)
    late = Asked(scheduler, echo, ["late"], deadline=time.monotonic() + 0.05)
    time.sleep(0.1)
    echo.gate.set()
    late.wait()
    assert isinstance(late.error, DeadlinePassed)


def test_a_closed_scheduler_answers_what_it_accepted_and_takes_no_more():
    scheduler, echo = Scheduler(), Echo()
    held(scheduler, echo)
    waiting = Asked(scheduler, echo, ["waits"])
    scheduler.close()
    with pytest.raises(Closed):
        Asked(scheduler, echo, ["late"])
    echo.gate.set()
    assert waiting.wait() == ["waits"]
    scheduler.close(wait=True)
    assert not scheduler.busy
