"""Jobs whose parts are not pieces of files but tasks, each with a name and, once it is done, a record.

The tasks of a plan are divided among processes as parts are: shard I of N does task I, I + N and so on.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from regard.errors import DataError
from regard.jobs.plan import FORMAT_VERSION, PLAN, difference
from regard.jobs.storage import Storage, at_once

RESULTS = "results"


@dataclass(frozen=True, kw_only=True)
class TaskRecord:
    """A task that is done. `scores`: by name.

    `rank`: the place of a training among others is by this, the least first; of equal ones by `second_rank`.
    """

    task: str
    seconds: float
    scores: Mapping[str, float | None]
    result: Mapping[str, Any]
    rank: float | None = None
    second_rank: float | None = None

    def shown(self, name: str) -> str:
        """A score as text, with the decimals that its result has, or with four digits; empty if absent."""
        score = self.scores.get(name)
        decimals = {
            each["name"]: each["decimals"] for each in self.result.get("scores", ()) if "decimals" in each
        }
        form = f".{decimals[name]}f" if name in decimals else ".4g"
        return "" if score is None else format(score, form)


@dataclass(frozen=True, kw_only=True)
class TaskProgress:
    """The tasks of a job by name, those that are done with their records, best first if they have ranks."""

    command: str
    tasks: tuple[str, ...]
    done: tuple[TaskRecord, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The tasks that are not done."""
        done = {record.task for record in self.done}
        return tuple(task for task in self.tasks if task not in done)

    @property
    def table(self) -> tuple[list[str], list[list[str]]]:
        """The names of the scores, and a row for each task that is done."""
        names = list(dict.fromkeys(name for record in self.done for name in record.scores))
        rows = [[record.task, *(record.shown(name) for name in names)] for record in self.done]
        return names, rows


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """What a job does, by which no two processes may differ.

    `settings`: what the results depend on. `tasks`: what each task is, by its name, which is that of a file.
    `paths`: of the models whose hashes are in `settings`, for messages.
    """

    command: str
    version: str  # of regard
    settings: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]
    paths: Mapping[str, str] = field(default_factory=dict)

    def agreed(self, storage: Storage, *, adds: bool = False) -> "TaskPlan":
        """The plan of the output folder, which is this one, perhaps in another order; or it is written.

        With `adds` the folder may have other tasks too, and those that it lacks are added at the end, so that
        the places of others, by which shards are divided, stay.

        Raises:
            DataError: the folder belongs to another job.
        """
        table = json.loads(json.dumps({"format_version": FORMAT_VERSION, **asdict(self)}))
        if storage.create(PLAN, _content(table)):
            return self
        there = _read(storage) or {}
        known = there.get("tasks", {})
        added = {name: task for name, task in table["tasks"].items() if adds and name not in known}
        tasks = {**known, **table["tasks"]} if adds else table["tasks"]
        if found := _difference({**there, "tasks": {**known, **added}}, {**table, "tasks": tasks}):
            raise DataError(
                f"{storage.url} is the output of another job: {found}",
                "choose another folder for this one",
            )
        if added:
            storage.write(PLAN, _content({**there, "tasks": {**known, **added}}))
        return replace(self, tasks={**known, **added})

    def shard(self, number: int, shards: int) -> list[str]:
        """The tasks of shard `number` (from 1) of `shards`."""
        return list(self.tasks)[number - 1 :: shards]


def _content(table: Mapping[str, Any]) -> bytes:
    return json.dumps(table, indent=1, ensure_ascii=False).encode()


def _difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    for key in ("format_version", "command", "version"):
        if there.get(key) != here[key]:
            return difference(key, there.get(key), here[key], {})
    names = {**there.get("paths", {}), **here["paths"]}
    known, own = there.get("tasks", {}), here["tasks"]
    common = [{name: tasks[name] for name in known if name in own} for tasks in (known, own)]
    for before, after in ((there.get("settings", {}), here["settings"]), common):
        old, new = dict(flattened(before, ": ")), dict(flattened(after, ": "))
        for name in dict.fromkeys([*old, *new]):
            if old.get(name) != new.get(name):
                return difference(name, old.get(name), new.get(name), names)
    return _other_tasks(known, own)


def _other_tasks(known: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """The tasks that only one of two plans has, in words; empty if there are none."""
    parts = []
    for one, other, where in ((known, own, "in the folder"), (own, known, "in this one")):
        if only := [name for name in one if name not in other]:
            shown = ", ".join(only[:3]) + (", ..." if len(only) > 3 else "")
            parts.append(f"{shown} only {where}")
    return " and ".join(parts)


def flattened(table: Mapping[str, Any], separator: str, before: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a table and of tables within, by the names that lead to them."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flattened(value, separator, f"{before}{key}{separator}")
        else:
            yield before + key, value


def run_task(storage: Storage, task: str, do: Callable[[], TaskRecord]) -> TaskRecord | None:
    """Do a task and write its record; None if there was one."""
    if storage.read(_name(task)) is not None:
        return None
    record = do()
    storage.write(_name(task), (json.dumps(asdict(record), ensure_ascii=False) + "\n").encode())
    return record


def planned_tasks(storage: Storage) -> Mapping[str, Mapping[str, Any]]:
    """The tasks of the plan in a folder, by name; none if there is no plan of tasks."""
    return (_read(storage) or {}).get("tasks", {})


def task_progress(storage: Storage) -> TaskProgress | None:
    """How far a job of tasks is; None if the plan of the folder is of another kind.

    Raises:
        DataError: a record is damaged.
    """
    plan = _read(storage)
    if plan is None or "tasks" not in plan:
        return None
    names = list(plan["tasks"])
    records = [each for each in at_once(lambda task: task_record(storage, task), names) if each is not None]
    return progress_of(plan["command"], names, records)


def progress_of(command: str, tasks: list[str], records: list[TaskRecord]) -> TaskProgress:
    """How far a job is that has these records."""
    if command == "train":
        records = sorted(records, key=lambda each: place(each.rank, each.second_rank, each.task))
    return TaskProgress(command=command, tasks=tuple(tasks), done=tuple(records))


def place(rank: float | None, second: float | None, name: str) -> tuple[float, float, str]:
    """What trainings are ordered by: the least first, those without a rank last, equal ones by name."""
    worst = float("inf")
    return worst if rank is None else rank, worst if second is None else second, name


def _read(storage: Storage) -> dict[str, Any] | None:
    content = storage.read(PLAN)
    try:
        table = None if content is None else json.loads(content)
    except ValueError as error:
        raise DataError(
            f"{storage.url}/{PLAN} is damaged ({error})", "remove it and run the command again"
        ) from error
    return table if isinstance(table, dict) else None


def task_record(storage: Storage, task: str) -> TaskRecord | None:
    """The record of a task; None if it is not done.

    Raises:
        DataError: it is damaged.
    """
    content = storage.read(_name(task))
    if content is None:
        return None
    try:
        return TaskRecord(**json.loads(content))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{storage.url}/{_name(task)} is damaged", "remove it, and run the command again"
        ) from error


def _name(task: str) -> str:
    return f"{RESULTS}/{task}.json"
