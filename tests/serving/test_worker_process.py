"""What a worker's process sets up before it answers, in this process: its signals, threads and sockets."""

import os
import signal
import stat
import threading
import time
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest

from regard.serving import worker, workers
from regard.serving.job import Job
from regard.serving.scheduler import Closed, QueueLimits
from regard.serving.worker import IGNORED, _end, _let_go_of_sockets, work
from regard.serving.workers import WorkerHandle, Workers, _kill_all
from tests.serving.made_models import MadeModel
from tests.serving.test_scheduler import Echo


def test_a_process_ignores_the_servers_signals_and_ends_with_it_and_then_answers(pipe, monkeypatch):
    calls, made = [], []

    class Answers:
        def __init__(self, *given):
            made.append(given)

        def run(self):
            calls.append("run")

    def called(name):
        return lambda *given: calls.append((name, *given))

    signals = SimpleNamespace(signal=called("signal"), pthread_sigmask=called("mask"))
    monkeypatch.setattr(worker, "signal", SimpleNamespace(SIG_IGN=1, SIG_UNBLOCK=2, **vars(signals)))
    monkeypatch.setattr(worker, "threading", SimpleNamespace(Lock=threading.Lock, excepthook=None))
    monkeypatch.setattr(worker, "torch", SimpleNamespace(set_num_threads=called("threads")))
    monkeypatch.setattr(worker, "_let_go_of_sockets", called("sockets"))
    monkeypatch.setattr(worker, "end_with", called("end with"))
    monkeypatch.setattr(worker, "Worker", Answers)
    model, limits = MadeModel(Echo()), QueueLimits()
    model.lock = held = threading.Lock()
    held.acquire()
    work(pipe[1], model, limits, 3, 4711)
    ignored = [("signal", each, 1) for each in IGNORED]
    wanted = [("sockets", pipe[1]), *ignored, ("mask", 2, IGNORED), ("end with", 4711), ("threads", 3), "run"]
    assert calls == wanted
    assert made == [(pipe[1], model, limits)]
    assert not model.lock.locked(), "the lock of the server was held when it forked"
    assert worker.threading.excepthook is worker._end


def test_a_failure_of_a_thread_is_shown_and_ends_the_process(monkeypatch):
    calls = []
    monkeypatch.setattr(worker, "threading", SimpleNamespace(__excepthook__=calls.append))
    monkeypatch.setattr(worker, "os", SimpleNamespace(_exit=calls.append))
    failure = threading.ExceptHookArgs((ValueError, ValueError("why"), None, None))
    getattr(_end, "__wrapped__", _end)(failure)  # without the checks of types
    assert calls == [failure, 1]


@pytest.mark.parametrize("folder", ["/proc/self/fd", "/dev/fd"])
def test_only_sockets_beyond_the_streams_and_the_connection_are_exchanged(pipe, monkeypatch, folder):
    kept, plain, gone, nothing, calls = pipe[1], 1001, 1002, 1003, []
    numbers = {2, 3, kept.fileno(), plain, gone, 1004}

    def fstat(number):
        if number == gone:
            raise OSError("closed")
        return SimpleNamespace(st_mode=stat.S_IFREG if number == plain else stat.S_IFSOCK)

    made = SimpleNamespace(
        open=lambda path, flags: calls.append((path, flags)) or nothing,
        listdir=lambda path: calls.append(path) or [str(number) for number in sorted(numbers)],
        fstat=fstat,
        dup2=lambda source, target: calls.append((source, target)),
        close=calls.append,
        devnull=os.devnull,
        O_RDWR=os.O_RDWR,
    )
    monkeypatch.setattr(worker, "os", made)
    monkeypatch.setattr(
        worker, "Path", lambda path: SimpleNamespace(exists=lambda: path == folder == "/proc/self/fd")
    )
    _let_go_of_sockets(kept)
    exchanged = [(nothing, number) for number in (3, 1004) if number != kept.fileno()]
    assert calls == [(os.devnull, os.O_RDWR), folder, *exchanged, nothing]


def test_a_job_that_a_worker_refuses_is_cancelled_in_all_of_them():
    calls = []

    class Handle:
        alive, work = True, (0, 0)

        def submit(self, job):
            raise Closed

        def cancel(self, job):
            calls.append((self, job))

    made = Workers.__new__(Workers)
    made._closed, made._handles = False, [Handle(), Handle()]
    job = Job(answerer=Echo(), pieces=["a"], finished=print)
    with pytest.raises(Closed):
        made.submit(job)
    assert job.cancelled
    assert calls == [(handle, job) for handle in made._handles]


def test_what_a_process_that_cannot_be_begun_had_is_closed(monkeypatch):
    class Process:
        def __init__(self, **given):
            pass

        def start(self):
            raise OSError("no memory")

    ends = Pipe()
    context = SimpleNamespace(Pipe=lambda: ends, Process=Process)
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda kind: context)
    handle = WorkerHandle.__new__(WorkerHandle)
    handle._model, handle._limits, handle._threads = MadeModel(Echo()), QueueLimits(), 1
    handle._model.lock = threading.Lock()
    with pytest.raises(OSError, match="no memory"):
        handle._started()
    assert [end.closed for end in ends] == [True, True]
    assert not handle._model.lock.locked()


def test_a_process_that_is_begun_is_known_and_meets_no_signal_before_it_ignores_them(monkeypatch):
    given, masks, running = {}, [], set()

    class Process:
        def __init__(self, **more):
            given.update(more)

        def start(self):
            masks.append("start")
            assert handle._model.lock.locked()

    ends = Pipe()
    context = SimpleNamespace(Pipe=lambda: ends, Process=Process)
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda kind: context)
    monkeypatch.setattr(
        workers.signal, "pthread_sigmask", lambda how, mask: masks.append((how, mask)) or {"before"}
    )
    monkeypatch.setattr(workers, "RUNNING", running)
    handle = WorkerHandle.__new__(WorkerHandle)
    handle._model, handle._limits, handle._threads = MadeModel(Echo()), QueueLimits(), 3
    handle._model.lock = threading.Lock()
    begun = time.monotonic()
    started = getattr(WorkerHandle._started, "__wrapped__", WorkerHandle._started)
    connection, process = started(handle)
    assert (connection, running) == (ends[0], {process})
    assert [end.closed for end in ends] == [False, True]
    assert begun <= handle._begun <= time.monotonic()
    assert masks == [(signal.SIG_BLOCK, IGNORED), "start", (signal.SIG_SETMASK, {"before"})]
    assert given["args"] == (ends[1], handle._model, handle._limits, 3, os.getpid())
    assert (given["target"], given["daemon"], handle._model.lock.locked()) == (work, True, False)
    connection.close()


def test_at_exit_no_worker_is_begun_again_and_all_are_killed(monkeypatch):
    killed = []
    monkeypatch.setattr(workers, "EXITING", threading.Event())
    monkeypatch.setattr(workers, "RUNNING", [SimpleNamespace(kill=lambda: killed.append("killed"))])
    _kill_all()
    assert workers.EXITING.is_set()
    assert killed == ["killed"]
