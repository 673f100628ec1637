"""The parts or tasks of a job, given by number to processes of an engine, which may be lost."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from regard.errors import DataError, RunError
from regard.jobs.pace import Pace, PartDone, ShardReport
from regard.jobs.part_record import recorded
from regard.jobs.part_worker import Message, refuse_error
from regard.jobs.plan import read_plan
from regard.jobs.storage import Storage
from regard.jobs.tasks import task_progress

LOSSES = 5  # of processes by one part, or while they start, until the job is given up
FAILURES = 3  # of a part by errors that may pass
LONGEST_START = 900.0  # seconds until the first process is there: a cluster may have to start a machine
LOOK = 5.0  # seconds between two looks at the size of the cluster


class WorkerLost(Exception):
    """A process has ended, or its machine has."""


@runtime_checkable
class Engine(Protocol):
    """Processes somewhere, each of which holds a PartWorker."""

    def wanted(self) -> int:
        """How many processes there may be now."""
        ...

    def start(self) -> Any:
        """A new process."""
        ...

    def call(self, worker: Any, method: str, argument: Any) -> Any:
        """Begin a call; returns a ticket."""
        ...

    def ready(self, tickets: Sequence[Any], seconds: float) -> Sequence[Any]:
        """The tickets whose calls have ended; waits `seconds` at most for one to end."""
        ...

    def result(self, ticket: Any) -> Message:
        """What a call that has ended returned.

        Raises:
            WorkerLost: the process was lost.
        """
        ...

    def stop(self, worker: Any) -> None:
        """End a process."""
        ...


def _work_of(storage: Storage) -> tuple[dict[int, int], set[int]]:
    """The sizes of a job's parts or tasks by number, and the numbers of those that are done."""
    tasks = task_progress(storage)
    if tasks is None:
        parts = read_plan(storage).parts()
        return {part.number: part.size for part in parts}, recorded(storage)
    missing = set(tasks.missing)
    numbers = dict.fromkeys(range(len(tasks.tasks)), 1)
    return numbers, {number for number, task in enumerate(tasks.tasks) if task not in missing}


class Placement:
    """One job on an engine.

    Args:
        done: is called after each part.
    """

    def __init__(self, engine: Engine, storage: Storage, done: Callable[[PartDone], None]) -> None:
        self.engine, self.storage, self.done = engine, storage, done
        self._calls: dict[Any, tuple[Any, int | None]] = {}  # ticket -> process, part; None while it opens
        self._todo: deque[int] = deque()
        self._idle: list[Any] = []
        self._losses: Counter[int | None] = Counter()
        self._failures: Counter[int] = Counter()
        self._looks = 0.0  # when the size of the cluster is looked at next
        self._tasks = False  # True: each is on its own
        self.reasons: dict[int, str] = {}  # why tasks could not be done, by number

    def run(self) -> ShardReport:
        """Answer all parts that are not done.

        Raises:
            DataError: as `run_shard` does. RunError: processes are lost again and again, or none can start.
        """
        try:
            self._plan()
            self._tasks = task_progress(self.storage) is not None
            sizes, present = _work_of(self.storage)
            self._pace = Pace(sizes, present)
            self._todo.extend(number for number in sizes if number not in present)
            while self._todo or any(part is not None for _, part in self._calls.values()):
                if time.monotonic() >= self._looks:
                    self._looks = time.monotonic() + LOOK
                    self._start_missing()
                self._wait()
            return self._pace.report()
        finally:
            for worker in [*self._idle, *(worker for worker, _ in self._calls.values())]:
                self.engine.stop(worker)

    def _plan(self) -> None:
        """The first process, which writes the plan."""
        began = time.monotonic()
        while not self._idle:
            if not self._calls:
                self._start(plans=True)
            self._wait()
            if time.monotonic() - began > LONGEST_START:
                raise RunError(
                    f"no process has started in {LONGEST_START:.0f} seconds",
                    "`ray status` shows whether a machine has room for one",
                )

    def _start(self, plans: bool) -> None:
        worker = self.engine.start()
        self._calls[self.engine.call(worker, "open", plans)] = worker, None

    def _start_missing(self) -> None:
        there = len(self._idle) + len(self._calls)
        useful = len(self._todo) + len(self._calls)
        for _ in range(min(self.engine.wanted(), useful) - there):
            self._start(plans=False)

    def _wait(self) -> None:
        """Take what has ended within a second, and give each process that is free a part."""
        while self._idle and self._todo:
            worker, part = self._idle.pop(), self._todo.popleft()
            self._calls[self.engine.call(worker, "answer", part)] = worker, part
        for ticket in self.engine.ready([*self._calls], 1.0):
            worker, part = self._calls.pop(ticket)
            try:
                message = self.engine.result(ticket)
            except WorkerLost as error:
                self._lose(part, error)
            else:
                self._take(worker, part, message)

    def _take(self, worker: Any, part: int | None, message: Message) -> None:
        self._idle.append(worker)
        if part is None:
            refuse_error(message)
            self._losses[None] = 0
            return
        try:
            refuse_error(message)
        except RunError as error:
            self._failures[part] += 1
            if self._failures[part] < FAILURES:
                self._todo.append(part)
            elif not self._tasks:
                raise
            else:
                self._give_up(part, error.message)
            return
        if reason := message.pop("reason", None):  # of a task that cannot be done
            self.reasons[part] = reason
        self.done(self._pace.add(part, **message))

    def _lose(self, part: int | None, error: WorkerLost) -> None:
        self._losses[part] += 1
        there = len(self._idle) + len(self._calls)
        if part is None and self._losses[part] >= max(LOSSES, there):  # of many, some may be lost at once
            raise RunError(
                f"{self._losses[part]} processes have ended one after another while they started: {error}",
                "each machine needs the same version of regard and the path of the model",
            )
        self._looks = 0.0  # another process, soon
        if part is None:
            return
        if self._losses[part] < LOSSES:
            self._todo.appendleft(part)
        elif self._tasks:
            self._give_up(part, f"it has ended {LOSSES} processes: {error}")
        else:
            raise DataError(
                f"part {part} has ended {LOSSES} processes: {error}",
                "if it was the memory, give smaller parts or batches; `plan.json` names the inputs",
            )

    def _give_up(self, task: int, reason: str) -> None:
        """A task that ends processes or fails again and again; the others are done."""
        self.reasons[task] = reason
        self.done(self._pace.add(task, lines=0, failed=1, seconds=0.0))
