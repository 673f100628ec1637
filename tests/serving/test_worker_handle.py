"""What the server knows of a worker: its requests, its messages, its end, and the process after it."""

import itertools
import threading
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest

from regard.serving import workers
from regard.serving.job import Job
from regard.serving.scheduler import Closed
from regard.serving.worker_messages import Answered, Cancel, Ended, Part, Submit
from regard.serving.workers import SHORTEST_LIFE, QueuedRequests, WorkerHandle, Workers
from regard.verbs.serve import ServedModel
from tests.serving.test_scheduler import Echo, Seen


class Process:
    """A process that counts the calls."""

    def __init__(self, pid=7):
        self.pid, self.exitcode, self.calls = pid, -9, []

    def kill(self):
        self.calls.append("kill")

    def join(self, seconds=None):
        self.calls.append("join")


class Request:
    """A job and what came of it, in order."""

    def __init__(self, *pieces, **more):
        self.events = events = []
        self.job = Job(
            answerer=Echo(),
            pieces=pieces or ["a"],
            answered=lambda place, answer: events.append((place, answer)),
            part=events.append,
            finished=events.append,
            **more,
        )


@pytest.fixture
def handle(pipe):
    """A handle without its thread."""
    made = WorkerHandle.__new__(WorkerHandle)
    made._lock, made._sending, made._numbers = threading.RLock(), threading.Lock(), itertools.count()
    made._jobs, made._number_of, made._closed, made._alive = {}, {}, False, True
    made._connection, made._process, made._queued = pipe[0], Process(), QueuedRequests(Seen())
    made._thread, made._begun = Process(), 100.0
    return made


def ended(number, error=None, queued=0):
    return Ended(number=number, error=error, started=5.0, queued=queued, batches=[(2, 0.5)])


def received(pipe):
    found = []
    while pipe[1].poll():
        found.append(pipe[1].recv())
    return found


def test_requests_are_sent_and_counted_until_they_have_ended(handle, pipe):
    one, other = Request("abc", "d", places=[4, 2], deadline=9.0), Request("ef", in_parts=True)
    assert (handle.busy, handle.work, handle.process, handle.alive) == (False, (0, 0), 7, True)
    handle.submit(one.job)
    handle.submit(other.job)
    first, second = received(pipe)
    assert isinstance(first, Submit)
    assert (first.number, list(first.pieces), list(first.places)) == (0, ["abc", "d"], [4, 2])
    assert (first.settings.task, first.deadline, first.in_parts) == ("embed", 9.0, False)
    assert (second.number, second.in_parts) == (1, True)
    assert (handle.busy, handle.work) == (True, (one.job.size + other.job.size, 2))
    handle.cancel(other.job)
    assert received(pipe) == [Cancel(1)]
    handle._pass_on(ended(0))
    handle.cancel(one.job)
    assert received(pipe) == []
    assert handle.work == (other.job.size, 1)
    handle._process.pid = None
    assert handle.process == 0


def test_messages_reach_their_requests_unless_those_are_cancelled(handle):
    one, gone, failed = Request(), Request(), Request()
    for each in (one, gone, failed):
        handle.submit(each.job)
    gone.job.cancelled = True
    error = Closed("why")
    for message in (
        *(kind for number in (0, 1, 9) for kind in (Part(number, "a"), Answered(number, 0, "b"))),
        ended(0, queued=3), ended(1, queued=3), ended(9), ended(2, error, queued=0),
    ):  # fmt: skip
        handle._pass_on(message)
    assert (one.events, gone.events, failed.events) == (["a", (0, "b"), None], [], [error])
    assert (one.job.started, handle.busy, handle._number_of) == (5.0, False, {})
    assert handle._queued._observer.batches == [(2, 0.5)] * 3
    assert handle._queued._observer.queued == [3, 0]
    assert handle._process.calls == [], "it is not closed"


def test_a_closed_worker_ends_when_it_has_answered(handle):
    handle.submit(Request().job)
    handle.close()
    assert handle._process.calls == []
    with pytest.raises(Closed):
        handle.submit(Request().job)
    handle._pass_on(ended(0))
    assert handle._process.calls == ["kill"]
    handle.close()
    assert handle._process.calls == ["kill", "kill"]
    handle.join()
    assert handle._thread.calls == ["join"]


def test_an_aborted_worker_ends_at_once(handle):
    handle.submit(Request().job)
    handle.abort()
    assert (handle._process.calls, handle._thread.calls) == (["kill"], ["join"])
    with pytest.raises(Closed):
        handle.submit(Request().job)


@pytest.mark.parametrize("closed", [False, True])
def test_what_a_dead_worker_had_is_refused_and_it_is_released(handle, pipe, monkeypatch, closed):
    running = {handle._process}
    monkeypatch.setattr(workers, "RUNNING", running)
    left, gone = Request(), Request()
    handle.submit(left.job)
    handle.submit(gone.job)
    handle._queued.report(7, ended(5, queued=2))
    gone.job.cancelled, handle._closed = True, closed
    handle._refuse_left()
    assert (handle._process.calls, running, pipe[0].closed) == (["join"], set(), True)
    assert (handle.alive, handle.busy, handle._number_of) == (False, False, {})
    assert handle._queued._observer.queued == [2, 0]
    [error] = left.events
    assert isinstance(error, Closed)
    assert ("the process that computed the answer has died" in str(error)) is not closed
    assert left.job.cancelled
    assert gone.events == []
    if not closed:
        handle.submit(Request().job)  # for the next process
        assert handle.busy


def test_another_process_is_begun_after_a_while_and_gets_what_waits(handle, monkeypatch, capsys):
    begun, slept, now = [OSError("no memory"), Pipe()], [], [100.2]
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=slept.append))

    def started(self):
        found = begun.pop(0)
        if isinstance(found, OSError):
            self._alive = False
            early.append(Request())
            self.submit(early[0].job)
            now[0] = 200.0
            raise found
        waiting.append(Request())
        self.submit(waiting[0].job)
        return found[0], Process(8)

    early, waiting, pipe = [], [], begun[1]
    monkeypatch.setattr(WorkerHandle, "_started", started)
    assert handle._replaced()
    assert slept == [pytest.approx(SHORTEST_LIFE - 0.2), pytest.approx(SHORTEST_LIFE)]
    assert "no process can be begun" in str(early[0].events[0])
    assert (handle.alive, handle.process, waiting[0].events) == (True, 8, [])
    assert [message.number for message in received(pipe)] == [1]
    written = capsys.readouterr().err
    assert "a worker has died (signal 9); another one is begun" in written
    assert "a worker cannot be begun: no memory" in written
    for end in pipe:
        end.close()


def test_a_process_that_was_begun_for_a_worker_closed_meanwhile_ends(handle, pipe, monkeypatch):
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: 200.0, sleep=lambda seconds: None))
    process = Process(8)

    def started(self):
        self.close()
        return pipe[0], process

    monkeypatch.setattr(WorkerHandle, "_started", started)
    assert handle._replaced()
    assert process.calls == ["kill"]


@pytest.mark.parametrize("exiting", [False, True])
def test_no_process_is_begun_for_a_closed_worker_or_at_exit(handle, monkeypatch, capsys, exiting):
    event = threading.Event()
    monkeypatch.setattr(workers, "EXITING", event)
    left = Request()
    handle.submit(left.job)
    if exiting:
        event.set()
    else:
        handle._closed = True
    assert not handle._replaced()
    assert isinstance(left.events[0], Closed)
    assert not handle.alive
    assert capsys.readouterr().err == ""


def test_messages_are_passed_on_until_the_process_ends_and_no_other_is_begun(handle, pipe, monkeypatch):
    monkeypatch.setattr(workers, "RUNNING", set())
    again = Pipe()
    replaced = [True, False]

    def next_process(self):
        self._connection = again[0]
        return replaced.pop(0)

    monkeypatch.setattr(WorkerHandle, "_replaced", next_process)
    request = Request()
    handle.submit(request.job)
    pipe[1].send([Answered(0, 0, "b"), ended(0)])
    pipe[1].close()
    again[1].close()
    handle._read()
    assert (request.events, replaced) == ([(0, "b"), None], [])


class Handle:
    """A worker's handle that records its calls."""

    def __init__(self, work=(0, 0), alive=True):
        self.work, self.alive, self.busy, self.process = work, alive, False, 5
        self.jobs, self.calls = [], []

    def submit(self, job):
        self.jobs.append(job)

    def __getattr__(self, name):
        return lambda *given: self.calls.append(name)


def workers_of(*handles):
    made = Workers.__new__(Workers)
    made._closed, made._handles = False, list(handles)
    return made


def test_a_request_goes_to_the_living_worker_with_the_least_work():
    busy, free, dead = Handle((9, 1)), Handle((8, 1)), Handle((0, 0), alive=False)
    made, job = workers_of(busy, free, dead), Request().job
    made.submit(job)
    assert (busy.jobs, free.jobs, dead.jobs) == ([], [job], [])
    busy.alive = free.alive = False
    made.submit(job)
    assert dead.jobs == [job], "the next process of one of them gets it"


def test_all_workers_are_closed_and_waited_for_or_aborted():
    handles = Handle(), Handle()
    made = workers_of(*handles)
    assert (made.busy, made.processes) == (False, [5, 5])
    handles[1].busy = True
    assert made.busy
    made.close()
    assert [each.calls for each in handles] == [["close"]] * 2
    made.close(wait=True)
    assert [each.calls for each in handles] == [["close", "close", "join"]] * 2
    with pytest.raises(Closed):
        made.submit(Request().job)
    made = workers_of(Handle())
    made.abort()
    assert made._handles[0].calls == ["abort"]
    with pytest.raises(Closed):
        made.submit(Request().job)


def test_each_worker_computes_with_one_thread_unless_another_number_is_given(monkeypatch):
    made = []
    monkeypatch.setattr(workers, "WorkerHandle", lambda model, limits, threads, queued: made.append(threads))
    Workers(ServedModel(), 2)
    Workers(ServedModel(), 1, threads=3)
    assert made == [1, 1, 3]
