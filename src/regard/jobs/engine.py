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

MOST_LOSSES = 5  # of processes by one part, or while they start, until the job is given up
MOST_FAILURES = 3  # of a part by errors that may pass
LONGEST_START = 900.0  # seconds until the first process is there: a cluster may have to start a machine
RESIZE_INTERVAL = 5.0  # seconds between two questions about the size of the cluster


class WorkerLost(Exception):
    """A process or its machine has ended."""


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


class Placement:
    """One job on an engine: gives each process a part after the other; those of lost processes again.

    Args:
        done: is called after each part.

    Attributes:
        reasons: why tasks could not be done, by number.
    """

    def __init__(self, engine: Engine, storage: Storage, done: Callable[[PartDone], None]) -> None:
        self.engine, self.storage, self.done = engine, storage, done
        self.reasons: dict[int, str] = {}
        self._todo: deque[int] = deque()
        self._idle: list[Any] = []
        self._calls: dict[Any, tuple[Any, int | None]] = {}  # ticket -> process and part; None: it starts
        self._losses: Counter[int | None] = Counter()  # of processes, by part
        self._failures: Counter[int] = Counter()
        self._next_resize = 0.0  # by time.monotonic
        self._has_tasks = False  # one that fails ends no job

    def run(self) -> ShardReport:
        """Answer all parts that are not done.

        Raises:
            DataError: as `run_shard` does.
            RunError: processes are lost again and again, or none can start.
        """
        try:
            self._start_first()
            self._read_plan()
            while self._todo or any(part is not None for _, part in self._calls.values()):
                if time.monotonic() >= self._next_resize:
                    self._next_resize = time.monotonic() + RESIZE_INTERVAL
                    self._start_missing()
                self._step()
            return self._pace.report()
        finally:
            for worker in [*self._idle, *(worker for worker, _ in self._calls.values())]:
                self.engine.stop(worker)

    def _start_first(self) -> None:
        """The first process, which writes the plan."""
        began = time.monotonic()
        while not self._idle:
            if time.monotonic() - began > LONGEST_START:
                raise RunError(
                    f"no process has started in {LONGEST_START:.0f} seconds",
                    "`ray status` shows whether a machine has room for one",
                )
            if not self._calls:
                self._start(plans=True)
            self._step()

    def _start(self, plans: bool) -> None:
        worker = self.engine.start()
        self._calls[self.engine.call(worker, "open", plans)] = worker, None

    def _start_missing(self) -> None:
        present = len(self._idle) + len(self._calls)
        useful = len(self._todo) + len(self._calls)
        for _ in range(min(self.engine.wanted(), useful) - present):
            self._start(plans=False)

    def _read_plan(self) -> None:
        """The parts or tasks, and which of them are done."""
        tasks = task_progress(self.storage)
        if tasks is None:
            sizes = {part.number: part.size for part in read_plan(self.storage).parts()}
            done = recorded(self.storage)
        else:
            sizes = dict.fromkeys(range(len(tasks.tasks)), 1)
            missing = set(tasks.missing)
            done = {number for number, task in enumerate(tasks.tasks) if task not in missing}
        self._has_tasks = tasks is not None
        self._pace = Pace(sizes, done)
        self._todo.extend(number for number in sizes if number not in done)

    def _step(self) -> None:
        """Give each process that is free a part, and take what ends within a second."""
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
        """What a process returned, which is free now."""
        self._idle.append(worker)
        if part is None:
            refuse_error(message)
            self._losses[None] = 0
            return
        try:
            refuse_error(message)
        except RunError as error:
            self._retry(part, error)
            return
        if reason := message.pop("reason", None):  # of a task that cannot be done
            self.reasons[part] = reason
        self.done(self._pace.add(part, **message))

    def _retry(self, part: int, error: RunError) -> None:
        """A part failed by an error that may pass: it is done again, after the others."""
        self._failures[part] += 1
        if self._failures[part] < MOST_FAILURES:
            self._todo.append(part)
        elif self._has_tasks:
            self._give_up(part, error.message)
        else:
            raise error

    def _lose(self, part: int | None, error: WorkerLost) -> None:
        """A process was lost: its part is done again, before the others."""
        self._losses[part] += 1
        most = max(MOST_LOSSES, len(self._idle) + len(self._calls))  # some of many may be lost at once
        if part is None and self._losses[part] >= most:
            raise RunError(
                f"{self._losses[part]} processes have ended one after another while they started: {error}",
                "each machine needs the same version of regard and the path of the model",
            )
        self._next_resize = 0.0  # start another process at once
        if part is None:
            return
        if self._losses[part] < MOST_LOSSES:
            self._todo.appendleft(part)
        elif self._has_tasks:
            self._give_up(part, f"it has ended {MOST_LOSSES} processes: {error}")
        else:
            raise DataError(
                f"part {part} has ended {MOST_LOSSES} processes: {error}",
                "if it was the memory, give smaller parts or batches; `plan.json` names the inputs",
            )

    def _give_up(self, task: int, reason: str) -> None:
        """A task has ended processes or failed again and again: it counts as failed, and the others go on."""
        self.reasons[task] = reason
        self.done(self._pace.add(task, lines=0, failed=1, seconds=0.0))
