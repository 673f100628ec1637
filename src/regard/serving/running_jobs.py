"""The pieces of jobs that are decoded a token at a time; each joins and leaves at a step of its own.

Those of long requests have batches of their own. A step of many pieces takes much longer than one of few, so
the long requests take their steps only until they have had as much time as the short ones.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from regard.serving.job import Job
from regard.verbs.generation.running_answers import RunningAnswers
from regard.verbs.shared.answerer import DecodingAnswerer

Done = tuple[Job, int, Any]  # a job, the number of one of its pieces, and the answer or the exception
Key = tuple[DecodingAnswerer[Any, Any], bool]  # of a running batch; True: of long requests


class RunningJobs:
    """Pieces of jobs, in one running batch for each answerer, or two. Used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._batches: dict[Key, RunningAnswers[Any, Any]] = {}
        self._jobs: dict[Key, dict[int, tuple[Job, int]]] = {}  # by ticket
        self._clock = clock
        self._ahead = 0.0  # seconds that long requests have had more than short ones
        self.tokens = 0  # that all pieces may come to have, of all hypotheses: what memory grows with
        self.stepped = 0  # pieces that the last step advanced

    @property
    def pieces(self) -> int:
        """The number of pieces that are not answered yet."""
        return sum(map(len, self._jobs.values()))

    def pieces_by_length(self) -> dict[bool, int]:
        """The number of pieces of long requests (True) and of short ones (False)."""
        found = {True: 0, False: 0}
        for (_, is_long), jobs in self._jobs.items():
            found[is_long] += len(jobs)
        return found

    def jobs(self) -> set[Job]:
        """The jobs of these pieces."""
        return {job for job, _ in self._all()}

    def add(self, job: Job, number: int) -> list[Done]:
        """Let a piece of a job join. Returns the piece with its error if it cannot."""
        answerer = job.answerer
        assert isinstance(answerer, DecodingAnswerer)
        key = answerer, job.is_long
        try:
            if key not in self._batches:
                self._batches[key] = answerer.running()
                self._jobs[key] = {}
            batch = self._batches[key]
            ticket = batch.add(job.pieces[number], job.places[number], in_parts=job.in_parts)
        except Exception as error:  # noqa: BLE001 (the request gets it)
            self._drop_if_empty(key)
            return [(job, number, error)]
        self._jobs[key][ticket] = job, number
        self.tokens += job.most_tokens(number)
        return []

    def drop_cancelled(self) -> int:
        """Drop the pieces of cancelled jobs. Returns their number."""
        dropped = 0
        for key, jobs in list(self._jobs.items()):
            for ticket, (job, number) in [each for each in jobs.items() if each[1][0].cancelled]:
                self._batches[key].cancel(ticket)
                del jobs[ticket]
                self.tokens -= job.most_tokens(number)
                dropped += 1
            self._drop_if_empty(key)
        return dropped

    def expired(self, now: float) -> set[Job]:
        """The jobs whose deadline has passed."""
        return {job for job, _ in self._all() if job.deadline < now}

    def step(self) -> list[Done]:
        """Advance the pieces by a token, those of long requests if it is their turn. Returns what is done."""
        done: list[Done] = []
        long, short = ([key for key in self._batches if key[1] is is_long] for is_long in (True, False))
        self.stepped = 0
        self._ahead -= self._timed(short, done)
        if self._ahead <= 0 or not short:
            seconds = self._timed(long, done)
            self._ahead = seconds if short else 0.0
        self.tokens -= sum(job.most_tokens(number) for job, number, _ in done)
        return done

    def _timed(self, keys: list[Key], done: list[Done]) -> float:
        """Advance these batches. Returns the seconds that it took."""
        begun = self._clock()
        for key in keys:
            self.stepped += len(self._jobs[key])
            done += self._advanced(key)
        return self._clock() - begun

    def _advanced(self, key: Key) -> list[Done]:
        """Advance a batch. Returns the pieces that are done by it."""
        jobs, batch = self._jobs[key], self._batches[key]
        try:
            found = batch.step()
        except Exception as error:  # noqa: BLE001 (the requests get it)
            done: list[Done] = [(*each, error) for each in jobs.values()]
            jobs.clear()
        else:
            for ticket, text in batch.parts:
                jobs[ticket][0].part(text)
            done = [(*jobs.pop(ticket), answer) for ticket, answer in found]
        self._drop_if_empty(key)
        return done

    def _all(self) -> Iterator[tuple[Job, int]]:
        for jobs in self._jobs.values():
            yield from jobs.values()

    def _drop_if_empty(self, key: Key) -> None:
        """Drop an idle batch, whose cache would keep its memory."""
        if key in self._batches and not self._jobs.get(key):
            del self._batches[key], self._jobs[key]
