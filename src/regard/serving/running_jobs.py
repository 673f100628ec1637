"""The pieces of jobs that are decoded a token at a time; each joins and leaves at a step of its own."""

from collections.abc import Iterator
from typing import Any

from regard.serving.job import Job
from regard.verbs.generation.running_answers import RunningAnswers
from regard.verbs.serve import DecodingAnswerer

Done = tuple[Job, int, Any]  # a job, the number of one of its pieces, and the answer or the exception


class RunningJobs:
    """Pieces of jobs, in one running batch for each answerer. Used by one thread."""

    def __init__(self) -> None:
        self._batches: dict[DecodingAnswerer[Any, Any], RunningAnswers[Any, Any]] = {}
        self._jobs: dict[DecodingAnswerer[Any, Any], dict[int, tuple[Job, int]]] = {}  # by ticket
        self.tokens = 0  # that all pieces may come to have, of all hypotheses: what memory grows with

    @property
    def pieces(self) -> int:
        """The number of pieces that are not answered yet."""
        return sum(map(len, self._jobs.values()))

    def jobs(self) -> set[Job]:
        """The jobs of these pieces."""
        return {job for job, _ in self._all()}

    def add(self, job: Job, number: int) -> list[Done]:
        """Let a piece of a job join. Returns the piece with its error if it cannot."""
        answerer = job.answerer
        assert isinstance(answerer, DecodingAnswerer)
        try:
            if answerer not in self._batches:
                self._batches[answerer] = answerer.running()
                self._jobs[answerer] = {}
            batch = self._batches[answerer]
            ticket = batch.add(job.pieces[number], job.places[number], in_parts=job.in_parts)
        except Exception as error:  # noqa: BLE001 (the request gets it)
            self._drop_if_empty(answerer)
            return [(job, number, error)]
        self._jobs[answerer][ticket] = job, number
        self.tokens += job.most_tokens(number)
        return []

    def drop_cancelled(self) -> int:
        """Drop the pieces of cancelled jobs. Returns their number."""
        dropped = 0
        for answerer, jobs in list(self._jobs.items()):
            for ticket, (job, number) in [each for each in jobs.items() if each[1][0].cancelled]:
                self._batches[answerer].cancel(ticket)
                del jobs[ticket]
                self.tokens -= job.most_tokens(number)
                dropped += 1
            self._drop_if_empty(answerer)
        return dropped

    def expired(self, now: float) -> set[Job]:
        """The jobs whose deadline has passed."""
        return {job for job, _ in self._all() if job.deadline < now}

    def step(self) -> list[Done]:
        """Advance every piece by a token. Returns those that are done by it."""
        done: list[Done] = []
        for answerer, batch in list(self._batches.items()):
            jobs = self._jobs[answerer]
            try:
                found = batch.step()
            except Exception as error:  # noqa: BLE001 (the requests get it)
                done += [(*each, error) for each in jobs.values()]
                jobs.clear()
            else:
                for ticket, text in batch.parts:
                    jobs[ticket][0].part(text)
                done += [(*jobs.pop(ticket), answer) for ticket, answer in found]
            self._drop_if_empty(answerer)
        self.tokens -= sum(job.most_tokens(number) for job, number, _ in done)
        return done

    def _all(self) -> Iterator[tuple[Job, int]]:
        for jobs in self._jobs.values():
            yield from jobs.values()

    def _drop_if_empty(self, answerer: DecodingAnswerer[Any, Any]) -> None:
        """Drop an idle batch, whose cache would keep its memory."""
        if answerer in self._batches and not self._jobs.get(answerer):
            del self._batches[answerer], self._jobs[answerer]
