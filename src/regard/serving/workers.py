"""The workers of a model, as the server sees them: requests go to the one that has least to do."""

import atexit
import itertools
import multiprocessing
import multiprocessing.util  # ends its processes at exit; `_kill_all` comes before that
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from regard import console
from regard.decoding.pool import objects_kept_by_forks
from regard.serving.job import Job
from regard.serving.scheduler import Closed, Observer, QueueLimits
from regard.serving.shares import dealt, divided
from regard.serving.worker import IGNORED, work
from regard.serving.worker_messages import Answered, Cancel, Ended, Part, Submit
from regard.verbs.serve import ServedModel

RUNNING: set[BaseProcess] = set()
EXITING = threading.Event()  # set when this process ends
CAN_FORK = sys.platform == "linux"
LEAST_QUEUE = 16  # requests that may wait in each worker, however many there are
ABORT_SECONDS = 5.0  # that a killed worker may take to end
SHORTEST_LIFE = 0.5  # seconds after which the next worker may begin
PROCESSES = threading.Lock()  # to start one looks after all others, whose exit code a join then misses


class Workers:
    """Several processes that answer requests to one model. A worker that dies is replaced.

    `submit`, `cancel`, `close` and `abort` are those of `Scheduler`, but a request that cannot be taken is
    not refused by an exception: it is finished by it.
    """

    def __init__(
        self,
        model: ServedModel,
        number: int,
        *,
        threads: int = 1,
        limits: QueueLimits | None = None,
        observer: Observer | None = None,
    ) -> None:
        limits = limits or QueueLimits()
        limits = replace(limits, requests=max(min(limits.requests, LEAST_QUEUE), limits.requests // number))
        self._queued = QueuedRequests(observer)
        self._closed = False
        self._handles: list[WorkerHandle] = []
        try:
            for _ in range(number):
                self._handles.append(WorkerHandle(model, limits, threads, self._queued))
        except OSError:  # no memory for another process
            self.abort()
            raise

    @property
    def busy(self) -> bool:
        """True if a request is not answered yet."""
        return any(handle.busy for handle in self._handles)

    @property
    def processes(self) -> list[int]:
        """The ids of the processes."""
        return [handle.process for handle in self._handles]

    def submit(self, job: Job) -> None:
        """Hand a request to the worker with the least work, or shares of a long one to several.

        Raises:
            Closed: see `close`.
        """
        if self._closed:
            raise Closed
        handles = [handle for handle in self._handles if handle.alive] or self._handles
        shares = dealt(job, [handle.work for handle in handles])
        takers = [(handle, share) for handle, share in zip(handles, shares, strict=True) if share]
        jobs = [job] if len(takers) < 2 else divided(job, [share for _, share in takers])
        try:
            for (handle, _), each in zip(takers, jobs, strict=True):
                handle.submit(each)
        except Closed:
            self.cancel(job)
            raise

    def cancel(self, job: Job) -> None:
        """Drop a request; nothing happens if it is answered."""
        for each in (job, *job.shares):
            each.cancelled = True
            for handle in self._handles:
                handle.cancel(each)

    def close(self, wait: bool = False) -> None:
        """Take no more requests, and end the processes when all are answered."""
        self._closed = True
        for handle in self._handles:
            handle.close()
        if wait:
            for handle in self._handles:
                handle.join()

    def abort(self) -> None:
        """Refuse all requests that are not answered, and end the processes."""
        self._closed = True
        for handle in self._handles:
            handle.abort()


class QueuedRequests:
    """The requests that wait, in all workers together; and what else they report."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer
        self._numbers: dict[int, int] = {}

    def report(self, process: int, message: Ended) -> None:
        """Pass on what a worker has reported."""
        if self._observer is None:
            return
        for batch in message.batches:
            self._observer.batch(*batch)
        self._set(process, message.queued)

    def forget(self, process: int) -> None:
        """No request waits in this process any more."""
        self._set(process, 0)

    def _set(self, process: int, queued: int) -> None:
        if self._observer is not None and self._numbers.get(process, 0) != queued:
            self._numbers[process] = queued
            self._observer.queue(sum(self._numbers.values()))


class WorkerHandle:
    """A worker, and the requests that it has not answered. A thread reads its messages.

    `_lock` guards what is known of requests, `_sending` the connection. Nobody who sends holds `_lock`: a
    worker that sends must always find a reader.
    """

    def __init__(self, model: ServedModel, limits: QueueLimits, threads: int, queued: QueuedRequests) -> None:
        self._model, self._limits, self._threads, self._queued = model, limits, threads, queued
        self._lock, self._sending = threading.RLock(), threading.Lock()
        self._numbers = itertools.count()
        self._jobs: dict[int, Job] = {}
        self._number_of: dict[Job, int] = {}
        self._closed, self._alive = False, True
        self._connection, self._process = self._started()
        self._thread = threading.Thread(target=self._read, name="regard-worker", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        with self._lock:
            return bool(self._jobs)

    @property
    def process(self) -> int:
        """The process's id."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """False between the death of a worker and the start of the next."""
        with self._lock:
            return self._alive

    @property
    def work(self) -> tuple[int, int]:
        """The characters and the number of the requests that are not answered."""
        with self._lock:
            return sum(job.size for job in self._jobs.values()), len(self._jobs)

    def submit(self, job: Job) -> None:
        """Send a request, or keep it for the next process if this one has died."""
        with self._lock:
            if self._closed:
                raise Closed
            number = next(self._numbers)
            self._jobs[number], self._number_of[job] = job, number
            alive = self._alive
        if alive:
            self._send(_message_of(number, job))

    def cancel(self, job: Job) -> None:
        with self._lock:
            number = self._number_of.get(job)
        if number is not None:
            self._send(Cancel(number))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end_if_idle()

    def join(self) -> None:
        self._thread.join()

    def abort(self) -> None:
        with self._lock:
            self._closed = True
            self._process.kill()
        self._thread.join(ABORT_SECONDS)

    def _started(self) -> tuple[Connection, BaseProcess]:
        context = multiprocessing.get_context("fork")
        own, its = context.Pipe()
        arguments = (its, self._model, self._limits, self._threads, os.getpid())
        process = context.Process(target=work, args=arguments, name="regard-worker", daemon=True)
        try:
            with PROCESSES, self._model.lock, warnings.catch_warnings(), objects_kept_by_forks():
                warnings.simplefilter("ignore", DeprecationWarning)  # of a fork in a process with threads
                unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)  # until the worker ignores them
                try:
                    process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        except OSError:
            own.close()
            raise
        finally:
            its.close()
        RUNNING.add(process)
        self._begun = time.monotonic()
        return own, process

    def _send(self, message: Submit | Cancel) -> None:
        with self._sending, suppress(OSError):  # it has died, which the reading thread finds out
            self._connection.send(message)

    def _read(self) -> None:
        """Pass the worker's messages on, until it ends; begin another if it has died."""
        while True:
            try:
                messages = self._connection.recv()
            except (EOFError, OSError):
                self._refuse_left()
                if not self._replaced():
                    return
            else:
                for message in messages:
                    self._pass_on(message)

    def _pass_on(self, message: Answered | Part | Ended) -> None:
        with self._lock:
            job = self._jobs.get(message.number)
        if job is None:
            return
        if isinstance(message, Ended):
            self._finish(message, job)
        elif not job.cancelled and isinstance(message, Part):
            job.part(message.text)
        elif not job.cancelled and isinstance(message, Answered):
            job.answered(message.place, message.answer)

    def _finish(self, message: Ended, job: Job) -> None:
        job.started = message.started
        if not job.cancelled:
            job.finished(message.error)
        self._queued.report(self.process, message)
        with self._lock:
            del self._number_of[self._jobs.pop(message.number)]
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._closed and not self._jobs:
            self._process.kill()

    def _refuse_left(self) -> None:
        """Refuse what the ended process has not answered."""
        with PROCESSES:
            self._process.join()
        RUNNING.discard(self._process)
        with self._sending:
            self._connection.close()
        self._queued.forget(self.process)
        self._refuse_all("the process that computed the answer has died")

    def _refuse_all(self, why: str) -> None:
        with self._lock:
            self._alive = False
            left = list(self._jobs.values())
            self._jobs.clear()
            self._number_of.clear()
            closed = self._closed
        for job in left:
            if not job.cancelled:
                job.cancelled = True
                job.finished(Closed() if closed else Closed(why))

    @property
    def _needless(self) -> bool:
        return self._closed or EXITING.is_set()

    def _replaced(self) -> bool:
        """Begin another process, however often that fails. Returns False if none is needed any more."""
        if not self._needless:
            console.warn(f"a worker has died ({_end_of(self._process.exitcode)}); another one is begun")
        while not self._needless:
            time.sleep(max(0.0, self._begun + SHORTEST_LIFE - time.monotonic()))
            try:
                connection, process = self._started()
            except OSError as error:
                console.warn(f"a worker cannot be begun: {error}")
                self._refuse_all("no process can be begun")
                self._begun = time.monotonic()
                continue
            with self._sending, self._lock:
                self._connection, self._process = connection, process
                self._alive = True
                waiting = list(self._jobs.items())
                self._end_if_idle()
            for number, job in waiting:
                self._send(_message_of(number, job))
            return True
        self._refuse_all("")
        return False


def _message_of(number: int, job: Job) -> Submit:
    return Submit(
        number=number,
        settings=job.answerer.settings,
        pieces=job.pieces,
        places=job.places,
        in_parts=job.in_parts,
        deadline=job.deadline,
    )


def _kill_all() -> None:
    """Workers ignore the signal by which Python ends its processes at exit."""
    EXITING.set()
    for process in tuple(RUNNING):
        process.kill()


atexit.register(_kill_all)


def _end_of(exit_code: int | None) -> str:
    return f"signal {-exit_code}" if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"
