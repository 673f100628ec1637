"""What an engine runs in each process: a model, loaded once, that does parts or tasks by number.

Messages are JSON: names, settings, numbers. Lines and outputs pass between the process and the storage alone.
"""

import importlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.errors import ConfigError, DataError, FolderError, RegardError, RunError, UserError
from regard.jobs.plan import Plan, read_plan
from regard.jobs.shard import Answer, Wrap, run_part
from regard.jobs.storage import Storage
from regard.jobs.tasks import TaskPlan, TaskRecord, run_task

KINDS = {kind.__name__: kind for kind in (ConfigError, DataError, FolderError, UserError)}
Message = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class OpenedJob:
    """A job whose model is loaded."""

    plan: Plan
    answer: Answer
    failure: Callable[[int, str], str]
    engine: Mapping[str, Any]
    wrap: Wrap = lambda rows: rows


@dataclass(frozen=True, kw_only=True)
class OpenedTasks:
    """A job of tasks; `do` does one."""

    plan: TaskPlan
    do: Callable[[str], TaskRecord]


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """A job as a message.

    `opens`: MODULE:FUNCTION, which makes an OpenedJob or OpenedTasks of the settings; a second argument says
    whether its plan shall have inputs.
    """

    opens: str
    settings: Mapping[str, Any]
    output: str


class PartWorker:
    """Answers parts of one job.

    No method raises, because an engine wraps the errors of its processes. What it returns has the key `error`
    instead.

    Args:
        order: a JobOrder as JSON.
    """

    def __init__(self, order: str) -> None:
        self._order = JobOrder(**json.loads(order))

    def open(self, plans: bool) -> Message:
        """Load the model. One process plans; the others compare its plan with what they would do."""
        return _answered(lambda: self._open(plans))

    def answer(self, part: int) -> Message:
        """Answer a part, and write its output and its record."""
        return _answered(lambda: self._answer(part))

    def _open(self, plans: bool) -> Message:
        module, _, function = self._order.opens.partition(":")
        self._storage = Storage(self._order.output)
        job: OpenedJob | OpenedTasks = getattr(importlib.import_module(module), function)(
            self._order.settings, plans
        )
        self._job = job
        if isinstance(job, OpenedTasks):
            self._tasks = list(job.plan.agreed(self._storage).tasks)
            return {"parts": len(self._tasks)}
        plan = job.plan if plans else replace(job.plan, inputs=read_plan(self._storage).inputs)
        self._plan = plan.agreed(self._storage)
        self._parts = list(self._plan.parts())
        return {"parts": len(self._parts)}

    def _answer(self, part: int) -> Message:
        job = self._job
        if isinstance(job, OpenedTasks):
            return self._do(job, self._tasks[part])
        given = {"failure": job.failure, "engine": job.engine, "wrap": job.wrap}
        record = run_part(self._plan, self._parts[part], self._storage, job.answer, **given)
        return {"lines": record.lines, "failed": len(record.failed), "seconds": record.seconds}

    def _do(self, job: OpenedTasks, task: str) -> Message:
        """Do a task. One that cannot be done ends no job: `reason` says why."""
        began = time.monotonic()
        try:
            run_task(self._storage, task, lambda: job.do(task))
        except RegardError as error:
            seconds = time.monotonic() - began
            return {"lines": 0, "failed": 1, "seconds": seconds, "reason": f"{error.message} ({error.hint})"}
        return {"lines": 1, "failed": 0, "seconds": time.monotonic() - began}


def message_of(order: JobOrder) -> str:
    """The order as JSON."""
    return json.dumps(asdict(order))


def refuse_error(message: Message) -> None:
    """Raise the error that a process has returned, if it has."""
    if "error" in message:
        name, text, hint = message["error"]
        raise KINDS.get(name, RunError)(text, hint)


def _answered(call: Callable[[], Message]) -> Message:
    try:
        return call()
    except RegardError as error:
        kind = next((each.__name__ for each in type(error).__mro__ if each.__name__ in KINDS), "RunError")
        return {"error": [kind, error.message, error.hint]}
    except Exception as error:  # noqa: BLE001 (of an engine's process only this is seen)
        return {"error": ["RunError", f"{type(error).__name__}: {error}", "a flaw of regard: report it"]}
