"""The scheduler of one model: a bounded queue of requests, and a thread that answers them in batches.

Texts that are decoded join a running batch as soon as it has room, and leave it when they are done
(continuous batching): a turn of the thread is one token of each. One piece of each waiting request joins,
then another. Long requests have running batches of their own, which get half of the time if there are short
ones (`running_jobs.py`). All other work (embeddings, classes, scores) is computed in batches of pieces of
similar size, from requests with equal settings; after its turn a request goes to the end of the queue.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from regard.errors import RegardError, RunError
from regard.serving.job import Job
from regard.serving.running_jobs import RunningJobs
from regard.verbs.shared.answerer import BatchAnswerer

ROWS = 64  # the most pieces of a batch, of the decoded ones of long requests, and of those of short ones
MOST_ROWS = 128  # the same with the first pieces of new requests, which need not wait for those that began
RUNNING_TOKENS = 262_144  # the most tokens that all decoded pieces may come to have: their cache needs memory
PASSED_SECONDS = 5.0  # that smaller pieces may join before one that has no room; then all wait until it has
SECONDS = 0.3  # that a batch of other work should take, for which all others wait
SHORT_SECONDS = 0.02  # the same while texts are decoded
OUTLIER = 10  # a measured time counts as this multiple of the usual one at most
SIMILAR = 4  # the sizes of the pieces of a batch differ by this factor at most,
SMALL = 64  # where shorter pieces count as having so many characters
ABORT_SECONDS = 5.0  # that `abort` waits for the thread to end
SMOOTHING = 0.1  # the weight of a new measurement in the average time of a character
UNMEASURED = 1e-4  # seconds of a character, before any is measured


class QueueFull(RegardError):
    """The queue has no room; `retry_after` is the number of seconds until it probably has."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("too many requests are waiting", f"try again in {retry_after} s")
        self.retry_after = retry_after


class DeadlinePassed(RegardError):
    """The answer to a request was not there by its deadline."""

    def __init__(self) -> None:
        super().__init__("the answer took longer than the request may take", "send less text, or try later")


class Closed(RegardError):
    """The scheduler takes no more requests, because the model is being reloaded or unloaded."""

    def __init__(self, message: str = "this model is being replaced", hint: str = "try again") -> None:
        super().__init__(message, hint)


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    """How much may wait in the queue: requests, and characters of all of them together."""

    requests: int = 256
    characters: int = 1_000_000


@runtime_checkable
class Observer(Protocol):
    """Receives what the scheduler measures: each batch or decoding step, and the length of the queue."""

    def batch(self, rows: int, seconds: float) -> None: ...
    def queue(self, requests: int) -> None: ...


class Scheduler:
    """Answers requests to one model, in one thread, which `close` ends after the last request.

    Decoding and other work take turns of about the same length. The thread calls `after_turn` after each,
    when the requests have their answers.
    """

    def __init__(
        self,
        limits: QueueLimits | None = None,
        observer: Observer | None = None,
        after_turn: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits, self._observer, self._after_turn = limits or QueueLimits(), observer, after_turn
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._decoded = RunningJobs()
        self._running = 0  # pieces that are being decoded or computed
        self._closed = self._aborted = False
        # True: of decoding; False: of other work
        self._seconds_per_character = {True: UNMEASURED, False: UNMEASURED}
        self._spent = 0.0  # seconds of decoding since the last piece was done
        self._thread = threading.Thread(target=self._run, name="regard-scheduler", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """True if a request is not answered yet."""
        with self._changed:
            return bool(self._jobs or self._running)

    def submit(self, job: Job) -> None:
        """Put a request into the queue; an empty queue takes one of any size.

        Raises:
            QueueFull: there is no room, or the request would wait past its deadline.
            Closed: `close` was called.
        """
        with self._changed:
            if self._closed:
                raise Closed
            waiting = sum(each.size for each in self._jobs)
            wait = sum(each.size * self._seconds_per_character[each.decoded] for each in self._jobs)
            full = len(self._jobs) >= self.limits.requests
            too_long = waiting + job.size > self.limits.characters
            too_late = time.monotonic() + wait > job.deadline
            if full or (waiting and (too_long or too_late)):
                raise QueueFull(_whole_seconds(wait))
            self._jobs.append(job)
            self._report_queue()
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        """Drop a request: pieces that have not begun are not computed, and no more answers are reported."""
        with self._changed:
            job.cancelled = True
            if job in self._jobs:
                self._jobs.remove(job)
            self._report_queue()

    def close(self, wait: bool = False) -> None:
        """Take no more requests, and end the thread when all are answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if wait:
            self._thread.join()

    def abort(self) -> None:
        """Refuse all requests that are not answered, and end the thread after its turn."""
        with self._changed:
            self._closed = self._aborted = True
            self._changed.notify()
        self._thread.join(ABORT_SECONDS)

    def _refuse_all(self) -> None:
        refused = {*self._jobs, *self._decoded.jobs()}
        self._jobs.clear()
        for job in refused:
            if not job.cancelled:
                job.cancelled = True
                job.finished(Closed())
        self._after_turn()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._jobs or self._decoded.pieces or self._closed):
                    self._changed.wait()
                if self._aborted:
                    self._refuse_all()
                if self._aborted or not (self._jobs or self._decoded.pieces):
                    self._running = 0
                    return
                expired = self._take_expired()
                joining = self._take_pieces()
                batch = self._take_batch()
                self._running = self._decoded.pieces + len(joining) + (len(batch.rows) if batch else 0)
                self._report_queue()
            for job in expired:
                job.finished(DeadlinePassed())
            self._decode(joining)
            self._after_turn()
            if batch:
                ends = time.monotonic() + self._compute(batch)
                self._after_turn()
                while self._decoded.pieces and time.monotonic() < ends:
                    self._decode([])
                    self._after_turn()
            with self._changed:
                self._running = self._decoded.pieces

    def _report_queue(self) -> None:
        if self._observer:
            self._observer.queue(len(self._jobs))

    def _take_expired(self) -> list[Job]:
        now = time.monotonic()
        expired = {job for job in self._jobs if job.deadline < now} | self._decoded.expired(now)
        for job in expired:
            if job in self._jobs:
                self._jobs.remove(job)
            job.cancelled = True
        return list(expired)

    def _take_pieces(self) -> list[tuple[Job, int]]:
        """The pieces that join the running batches now: one of each request, then another."""
        if self._decoded.drop_cancelled():
            self._spent = 0.0  # some of it was for pieces that are not measured
        now, waiting = time.monotonic(), deque(job for job in self._jobs if job.decoded)
        taken: list[tuple[Job, int]] = []
        tokens, rows_of = self._decoded.tokens, self._decoded.pieces_by_length()
        while waiting:
            job = waiting.popleft()
            if rows_of[job.is_long] >= (MOST_ROWS if job.started is None else ROWS):
                continue
            needed = job.most_tokens(job.next)
            if sum(rows_of.values()) and tokens + needed > RUNNING_TOKENS:
                job.no_room_since = job.no_room_since or now
                if now - job.no_room_since > PASSED_SECONDS:
                    break
                continue
            rows_of[job.is_long] += 1
            tokens += needed
            job.started, job.no_room_since = job.started or now, None
            taken.append((job, job.take()))
            self._jobs.remove(job)
            if job.next < len(job.pieces):
                waiting.append(job)
                self._jobs.append(job)
        return taken

    def _decode(self, joining: Sequence[tuple[Job, int]]) -> None:
        """Let these pieces join, and advance all decoded pieces by a token."""
        begun = time.monotonic()
        done = [each for job, number in joining for each in self._decoded.add(job, number)]
        done += self._decoded.step()
        if rows := self._decoded.stepped:
            self._spent += time.monotonic() - begun
            self._report_batch(rows, time.monotonic() - begun)
        if size := sum(job.sizes[number] for job, number, _ in done):
            self._measure(self._spent, size, decodes=True)
            self._spent = 0.0
        if not self._decoded.pieces:
            self._spent = 0.0
        for each in done:
            self._deliver(*each)

    def _take_batch(self) -> "Batch | None":
        """The pieces of the next batch; jobs with others left go to the end of the queue."""
        first = next((job for job in self._jobs if not job.decoded), None)
        if first is None:
            return None
        answerer = first.answerer
        assert isinstance(answerer, BatchAnswerer)
        jobs = [job for job in self._jobs if job.answerer is answerer]
        rows = _rows([first] if answerer.alone else jobs, self._batch_size)
        taken = list(dict.fromkeys(job for job, _ in rows))
        for job in taken:
            job.started = job.started or time.monotonic()
            self._jobs.remove(job)
        self._jobs.extend(job for job in taken if job.next < len(job.pieces))
        return Batch(answerer, rows)

    @property
    def _batch_size(self) -> float:
        """How many characters a batch of other work should have."""
        seconds = SHORT_SECONDS if self._decoded.pieces else SECONDS
        return seconds / self._seconds_per_character[False]

    def _compute(self, batch: "Batch") -> float:
        """Compute a batch of other work; returns the seconds that it took."""
        size = sum(job.sizes[number] for job, number in batch.rows)
        begun = time.monotonic()
        results = batch.results()
        seconds = time.monotonic() - begun
        self._measure(seconds, size, decodes=False)
        self._report_batch(len(batch.rows), seconds)
        for (job, number), result in zip(batch.rows, results, strict=True):
            self._deliver(job, number, result)
        return seconds

    def _measure(self, seconds: float, size: int, *, decodes: bool) -> None:
        """Record the seconds that `size` characters took, to estimate how long a request has to wait."""
        usual = self._seconds_per_character[decodes]
        measured = min(seconds / max(1, size), OUTLIER * usual)
        self._seconds_per_character[decodes] += SMOOTHING * (measured - usual)

    def _report_batch(self, rows: int, seconds: float) -> None:
        if self._observer:
            self._observer.batch(rows, seconds)

    def _deliver(self, job: Job, number: int, result: Any) -> None:
        """Hand the answer to a piece, or its error, to its request."""
        if job.cancelled:
            return
        if isinstance(result, Exception):
            self._fail(job, result)
            return
        job.answered(job.places[number], result)
        job.left -= 1
        if not job.left:
            job.finished(None)

    def _fail(self, job: Job, error: Exception) -> None:
        self.cancel(job)
        job.finished(error)


class Batch:
    """Pieces that are computed together: jobs, each with the number of one of its pieces."""

    def __init__(self, answerer: BatchAnswerer[Any, Any], rows: Sequence[tuple[Job, int]]) -> None:
        self.answerer, self.rows = answerer, rows

    def results(self) -> list[Any]:
        """The answer to each row; if the batch fails, each is tried alone and may have an exception."""
        first, number = self.rows[0]
        pieces = [job.pieces[each] for job, each in self.rows]
        try:
            return self.answerer.answers(pieces, first.places[number])
        except Exception as error:  # noqa: BLE001 (the requests get it)
            if len(self.rows) == 1:
                return [error]
        return [Batch(self.answerer, [row]).results()[0] for row in self.rows]


def failure_of(error: Exception) -> RegardError:
    """The exception as one for the client; without its message if it is none of ours."""
    if isinstance(error, RegardError):
        return error
    return RunError(f"the model failed: {type(error).__name__}", "see the server's log")


def _rows(jobs: Sequence[Job], room: float) -> list[tuple[Job, int]]:
    """The pieces of the next batch: one of each request, then another, all of similar size.

    `room`: how many characters they should have together; one piece may have more.
    """
    first = jobs[0]
    size = max(SMALL, first.sizes[first.next])
    rows: list[tuple[Job, int]] = []
    waiting = deque(jobs)
    while waiting and len(rows) < ROWS and (room > 0 or not rows):
        job = waiting.popleft()
        its_size = max(SMALL, job.sizes[job.next])
        if not size / SIMILAR <= its_size <= size * SIMILAR:
            continue
        room -= job.sizes[job.next]
        rows.append((job, job.take()))
        if job.next < len(job.pieces):
            waiting.append(job)
    return rows


def _whole_seconds(seconds: float) -> int:
    """The seconds for Retry-After: 1 to 600."""
    return max(1, min(600, round(seconds)))
