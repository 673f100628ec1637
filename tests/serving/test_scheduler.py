"""The scheduler answers everything it accepts, in batches that are fair, and refuses the rest at once."""

import threading
import time
from types import SimpleNamespace

import pytest

from regard.errors import DataError, RunError
from regard.serving.running_jobs import RunningJobs
from regard.serving.scheduler import (
    OUTLIER,
    ROWS,
    SECONDS,
    SHORT_SECONDS,
    SIMILAR,
    SMALL,
    Batch,
    Closed,
    DeadlinePassed,
    Job,
    QueueFull,
    QueueLimits,
    Scheduler,
    _rows,
    failure_of,
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


def test_a_batch_has_no_more_than_it_computes_in_its_time(monkeypatch):
    monkeypatch.setattr(Scheduler, "_measure", lambda self, *measured, **kind: None)  # whatever it took
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
    assert not waiting.done.is_set(), "it did not wait for the answers"
    with pytest.raises(Closed):
        Asked(scheduler, echo, ["late"])
    echo.gate.set()
    assert waiting.wait() == ["waits"]
    scheduler.close(wait=True)
    assert not scheduler.busy


RUN = Scheduler._run  # `still` replaces it


class Seen:
    """What a scheduler reports."""

    def __init__(self):
        self.batches, self.queued = [], []

    def batch(self, rows, seconds):
        self.batches.append((rows, seconds))

    def queue(self, requests):
        self.queued.append(requests)


@pytest.fixture
def still(monkeypatch):
    """A scheduler whose thread does nothing: the test takes its turns. The clock stands at 50 s."""
    monkeypatch.setattr(Scheduler, "_run", lambda self: None)
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    return Scheduler(QueueLimits(requests=8, characters=1000), Seen())


def test_as_many_characters_may_wait_as_the_limit_says(still):
    Asked(still, Echo(), ["x" * 599])  # a piece counts a character more than it has
    with pytest.raises(QueueFull):
        Asked(still, Echo(), ["x" * 400])
    Asked(still, Echo(), ["x" * 399])
    with pytest.raises(QueueFull):
        Asked(still, Echo(), [""])


def test_a_request_that_would_wait_past_its_deadline_is_refused_at_once(still):
    still._seconds_per_character = {False: 2**-6, True: 100.0}
    Asked(still, Echo(), ["in time"], deadline=49.0)  # nobody waits: its turn decides
    still.cancel(still._jobs[0])
    Asked(still, Echo(), ["x" * 127])
    with pytest.raises(QueueFull) as refused:
        Asked(still, Echo(), ["late"], deadline=51.75)
    assert refused.value.retry_after == 2
    Asked(still, Echo(), ["just in time"], deadline=52.0)


@pytest.mark.parametrize(("wait", "shown"), [(0.1, 1), (2.6, 3), (599.0, 599), (9999.0, 600)])
def test_when_to_try_again_is_from_a_second_to_ten_minutes(still, wait, shown):
    still._seconds_per_character[False] = wait / 8
    for _ in range(8):
        Asked(still, Echo(), [""])
    with pytest.raises(QueueFull, match="too many requests") as refused:
        Asked(still, Echo(), [""])
    assert refused.value.retry_after == shown
    assert refused.value.hint == f"try again in {shown} s"


def test_the_length_of_the_queue_and_each_batch_are_reported(still):
    asked = [Asked(still, Echo(), [name]) for name in "abc"]
    still.cancel(asked[0].job)
    still.cancel(asked[0].job)  # it waits no more
    assert still._observer.queued == [1, 2, 3, 2, 2]
    usual = dict(still._seconds_per_character)
    assert still._compute(still._take_batch()) == 0.0
    assert still._observer.batches == [(1, 0.0)]
    assert still._seconds_per_character[True] == usual[True], "nothing was decoded"
    assert still._seconds_per_character[False] < usual[False]


def test_a_scheduler_is_busy_until_it_has_answered(scheduler):
    echo = Echo()
    assert not scheduler.busy
    first = held(scheduler, echo)
    assert scheduler.busy, "a batch is computed, though nobody waits"
    echo.gate.set()
    first.wait()
    ends = time.monotonic() + 10
    while scheduler.busy:
        assert time.monotonic() < ends


def test_a_request_may_take_until_its_deadline_and_no_longer(still):
    at, before = Asked(still, Echo(), [""]), Asked(still, Echo(), [""])
    at.job.deadline, before.job.deadline = 50.0, 49.9
    assert still._take_expired() == [before.job]
    assert before.job.cancelled
    assert list(still._jobs) == [at.job]
    assert not at.job.cancelled


@pytest.mark.parametrize("size", [300, 1000])
def test_pieces_of_a_batch_differ_at_most_by_a_factor(size):
    echo = Echo()
    sizes = [size, size * SIMILAR, size * SIMILAR + 1, size // SIMILAR, size // SIMILAR - 1]
    jobs = [job_of(echo, each) for each in sizes]
    assert [job for job, _ in _rows(jobs, 1e9)] == [jobs[0], jobs[1], jobs[3]]


def test_short_pieces_go_together_whatever_their_sizes():
    jobs = [job_of(Echo(), each) for each in (1, SMALL, SMALL * SIMILAR, SMALL * SIMILAR + 1)]
    assert [job for job, _ in _rows(jobs, 1e9)] == jobs[:3]


@pytest.mark.parametrize(("room", "rows"), [(0.0, 1), (20.0, 2), (21.0, 3), (30.0, 3), (1e6, 5)])
def test_a_batch_is_full_when_its_room_is_used_and_has_one_piece_in_any_case(room, rows):
    found = _rows([job_of(Echo(), *[10] * 5)], room)
    assert [number for _, number in found] == list(range(rows))


def test_the_time_of_a_character_follows_what_is_measured_but_no_outlier(still):
    still._seconds_per_character = {True: 1.0, False: 2.0}
    still._measure(12.0, 3, decodes=False)
    assert still._seconds_per_character == {True: 1.0, False: pytest.approx(2.0 + (4.0 - 2.0) / 10)}
    for seconds in (2.0 * OUTLIER, 1000.0 * OUTLIER):
        still._seconds_per_character[True] = 2.0
        still._measure(seconds, 1, decodes=True)
        assert still._seconds_per_character[True] == pytest.approx(2.0 + (2.0 * OUTLIER - 2.0) / 10)
    still._seconds_per_character[True] = 1.0
    still._measure(0.5, 0, decodes=True)  # empty texts
    assert still._seconds_per_character[True] == pytest.approx(0.95)


def test_other_work_takes_less_time_while_texts_are_decoded(still, monkeypatch):
    still._seconds_per_character[False] = 0.01
    assert still._batch_size == pytest.approx(100 * SECONDS)
    monkeypatch.setattr(RunningJobs, "pieces", 1)
    assert still._batch_size == pytest.approx(100 * SHORT_SECONDS)


def test_an_error_for_a_client_has_a_message_but_not_that_of_the_program():
    known = DataError("a", "b")
    assert failure_of(known) is known
    found = failure_of(ValueError("a secret"))
    assert type(found) is RunError
    assert str(found).startswith("the model failed: ValueError")
    assert "secret" not in str(found)


def job_of(answerer, *sizes):
    """A job whose pieces count so many characters."""
    pieces = ["x" * (size - 1) for size in sizes]
    return Job(answerer=answerer, pieces=pieces, finished=lambda error: None)


def test_a_piece_that_fails_alone_is_not_computed_again(still):
    echo = Echo()
    Asked(still, echo, ["bad"])
    still._compute(still._take_batch())
    assert len(echo.batches) == 1
    jobs = [job_of(echo, 1), Job(answerer=echo, pieces=["bad"], finished=lambda error: None)]
    one, other = Batch(echo, [(job, job.take()) for job in jobs]).results()
    assert one == ""
    assert isinstance(other, ValueError)
    assert [batch for batch, _ in echo.batches[1:]] == [["", "bad"], [""], ["bad"]], (
        "each of several is tried"
    )


def test_a_request_of_which_several_pieces_fail_ends_once_and_without_answers(still):
    asked = Asked(still, Echo(), ["bad", "bad", "good"])
    still._compute(still._take_batch())
    assert isinstance(asked.error, ValueError)
    assert asked.found == {}


def test_what_is_refused_at_the_end_is_reported_like_an_answer(still):
    reported, asked = [], Asked(still, Echo(), ["a"])
    still._after_turn = lambda: reported.append(asked.error)
    cancelled = Asked(still, Echo(), ["b"])
    cancelled.job.cancelled = True
    still._refuse_all()
    assert isinstance(reported[0], Closed)
    assert (still.busy, asked.job.cancelled, cancelled.done.is_set()) == (False, True, False)


def test_an_answer_for_nobody_is_not_reported_and_a_request_ends_with_its_last_answer(still):
    asked, gone = Asked(still, Echo(), ["a", "b"]), Asked(still, Echo(), ["c"])
    gone.job.cancelled = True
    still._deliver(gone.job, 0, "c")
    still._deliver(asked.job, 1, "b")
    assert (gone.found, asked.found, asked.done.is_set()) == ({}, {1: "b"}, False)
    still._deliver(asked.job, 0, "a")
    assert (asked.found, asked.done.is_set(), asked.error) == ({0: "a", 1: "b"}, True, None)


@pytest.mark.parametrize("end", [Scheduler.abort, lambda scheduler: scheduler.close(wait=True)])
def test_when_all_is_refused_or_answered_the_thread_has_ended(end):
    scheduler = Scheduler(after_turn=lambda: time.sleep(0.1))
    assert scheduler._thread.daemon, "a program may end though nobody closed it"
    Asked(scheduler, Echo(), ["a"])
    end(scheduler)
    assert not scheduler._thread.is_alive()


def test_decoding_takes_turns_as_long_as_the_batch_of_other_work_before_them(still, monkeypatch):
    calls, now = [], [50.0]

    def decode(joining):
        calls.append(("decode", joining, still._running))
        now[0] += 0.5

    def compute(batch):
        calls.append(("compute", len(batch.rows)))
        return 1.0

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    batches = [Batch(Echo(), [(job_of(Echo(), 1), 0)] * 3), None]
    still._decoded = SimpleNamespace(pieces=2)
    monkeypatch.setattr(type(still), "_take_expired", lambda self: [])
    monkeypatch.setattr(type(still), "_take_batch", lambda self: batches.pop(0))
    monkeypatch.setattr(type(still), "_take_pieces", lambda self: ["joins"] if len(batches) == 2 else [])
    still._decode, still._compute, still._closed = decode, compute, True
    still._after_turn = lambda: calls.append("turn")
    taken = still._report_queue

    def reported():
        taken()
        still._decoded.pieces = 2 if len(batches) == 1 else 0

    still._report_queue = reported
    RUN(still)
    turn = [("decode", [], 6), "turn"]
    assert calls == [
        ("decode", ["joins"], 6), "turn", ("compute", 3), "turn", *turn, *turn,
        ("decode", [], 2), "turn",
    ]  # fmt: skip
    assert (still._running, still._observer.queued) == (0, [0, 0])
