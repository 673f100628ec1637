"""A process that answers requests to one model, and shares its weights with the server: a fork of it.

The server's process reads requests and writes answers meanwhile; in one process, only one of the two runs
Python at a time.
"""

import os
import signal
import stat
import threading
import traceback
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from regard.errors import RegardError
from regard.parent_process import end_with
from regard.serving.job import Job
from regard.serving.scheduler import QueueLimits, Scheduler, failure_of
from regard.serving.worker_messages import Answered, Cancel, Ended, Part, Submit
from regard.verbs.serve import ServedModel

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the server gets them, and ends its workers
KEPT_BATCHES = 10_000  # that are not reported yet


def work(connection: Connection, model: ServedModel, limits: QueueLimits, threads: int, server: int) -> None:
    """Answer what comes through the connection, until the server closes it or ends."""
    model.lock = threading.Lock()  # that of the server was held by the thread that forked
    _let_go_of_sockets(connection)
    for each in IGNORED:
        signal.signal(each, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)
    threading.excepthook = _end  # of the scheduler, without which no request would be answered any more
    end_with(server)
    torch.set_num_threads(threads)
    Worker(connection, model, limits).run()


def _end(failure: threading.ExceptHookArgs) -> None:
    threading.__excepthook__(failure)
    os._exit(1)


def _let_go_of_sockets(kept: Connection) -> None:
    """Exchange the sockets that this fork has of its parent for nothing.

    A client would not see that the server has closed a connection which is open here. The numbers stay taken:
    an object of the parent may still close its own.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd"):
        number = int(name)
        try:
            is_socket = stat.S_ISSOCK(os.fstat(number).st_mode)
        except OSError:  # that of listdir
            continue
        if is_socket and number > 2 and number != kept.fileno():
            os.dup2(nothing, number)
    os.close(nothing)


class Worker:
    """A scheduler whose requests come from another process; the answers of a turn go there together."""

    def __init__(self, connection: Connection, model: ServedModel, limits: QueueLimits) -> None:
        self._connection, self._model = connection, model
        self._sending = threading.Lock()
        self._messages: deque[Answered | Part | Ended] = deque()
        self._jobs: dict[int, Job] = {}
        self._batches: deque[tuple[int, float]] = deque(maxlen=KEPT_BATCHES)
        self._queued = 0
        self._scheduler = Scheduler(limits, self, self._send)

    def run(self) -> None:
        """Answer until the connection is closed."""
        try:
            while True:
                message = self._connection.recv()
                if isinstance(message, Submit):
                    self._submit(message)
                elif isinstance(message, Cancel):
                    self._cancel(message.number)
        except (EOFError, OSError):  # the server needs no more answers
            self._scheduler.abort()

    def batch(self, rows: int, seconds: float) -> None:
        """Keep what the scheduler reports until something is sent."""
        self._batches.append((rows, seconds))

    def queue(self, requests: int) -> None:
        """Keep how many requests wait."""
        self._queued = requests

    def _submit(self, message: Submit) -> None:
        number = message.number
        try:
            self._jobs[number] = job = Job(
                answerer=self._model.answerer(message.settings),
                pieces=message.pieces,
                places=message.places,
                answered=lambda place, answer: self._messages.append(Answered(number, place, answer)),
                finished=lambda error: self._end(number, error),
                in_parts=message.in_parts,
                part=lambda text: self._messages.append(Part(number, text)),
                deadline=message.deadline,
            )
            self._scheduler.submit(job)
        except Exception as error:  # noqa: BLE001 (the request gets it; that the queue is full, among others)
            self._end(number, error)
            self._send()

    def _cancel(self, number: int) -> None:
        if job := self._jobs.get(number):
            self._scheduler.cancel(job)
            self._end(number, None)
            self._send()

    def _end(self, number: int, error: Exception | None) -> None:
        job = self._jobs.pop(number, None)
        if job is None and error is None:  # it has ended just before it was cancelled
            return
        if error is not None and not isinstance(error, RegardError):
            traceback.print_exception(error)
        batches = [self._batches.popleft() for _ in range(len(self._batches))]
        self._messages.append(
            Ended(
                number=number,
                error=None if error is None else failure_of(error),
                started=None if job is None else job.started,
                queued=self._queued,
                batches=batches,
            )
        )

    def _send(self) -> None:
        """Send what there is to tell."""
        if not self._messages:
            return
        with self._sending:
            messages = [self._messages.popleft() for _ in range(len(self._messages))]
            try:
                self._connection.send(messages)
            except OSError:  # the server has ended
                os._exit(1)
