"""A request whose pieces several workers answer: each has a share of them, which is a job of its own."""

import heapq
import threading
from collections.abc import Sequence
from typing import Any

from regard.serving.job import Job
from regard.verbs.shared.answerer import Answerer, BatchAnswerer

LEAST = 8  # pieces of a share: fewer take less together, as rows of one batch, than apart


Work = tuple[int, int]  # characters and requests


def dealt(job: Job, work: Sequence[Work]) -> list[list[int]]:
    """The numbers of the pieces for each worker, which has so much `work` already.

    The longest pieces go first, each to the worker that has the least. Within a share the pieces keep their
    order. Shares have at least LEAST pieces on average.
    """
    shares: list[list[int]] = [[] for _ in work]
    number = min(len(work), len(job.pieces) // LEAST) if _can_be_divided(job) else 1
    chosen = heapq.nsmallest(max(1, number), ((*each, worker) for worker, each in enumerate(work)))
    for piece in sorted(range(len(job.pieces)), key=lambda piece: -job.sizes[piece]):
        size, requests, worker = chosen[0]
        shares[worker].append(piece)
        heapq.heapreplace(chosen, (size + job.sizes[piece], requests, worker))
    return [sorted(share) for share in shares]


def divided(job: Job, shares: Sequence[Sequence[int]]) -> list[Job]:
    """A job for each share; the first error of one, or the last answer of all, finishes the request."""
    ended = _Ended(job)
    job.shares = [
        Job(
            answerer=job.answerer,
            pieces=[job.pieces[number] for number in share],
            places=[job.places[number] for number in share],
            answered=job.answered,
            finished=ended,
            deadline=job.deadline,
        )
        for share in shares
    ]
    return job.shares


def _can_be_divided(job: Job) -> bool:
    """True if no answer depends on the batch that it is computed in."""
    answerer: Answerer[Any, Any] = job.answerer
    return not (job.in_parts or (isinstance(answerer, BatchAnswerer) and answerer.alone))


class _Ended:
    """Called when a share has ended, by the thread that reads from its worker."""

    def __init__(self, job: Job) -> None:
        self._job, self._ended, self._lock = job, 0, threading.Lock()

    def __call__(self, error: Exception | None) -> None:
        job = self._job
        with self._lock:
            self._ended += 1
            if job.cancelled or (error is None and self._ended < len(job.shares)):
                return
            job.started = min((each.started for each in job.shares if each.started is not None), default=None)
            if error is not None:
                job.cancelled = True
                for each in job.shares:  # their answers are for nobody; `cancel` tells the workers
                    each.cancelled = True
        job.finished(error)
