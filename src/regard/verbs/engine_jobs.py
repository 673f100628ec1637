"""Jobs on an engine: the settings of a command as a message, and the job that a process makes of it."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, UserError
from regard.jobs.engine import Placement
from regard.jobs.inputs import find_inputs
from regard.jobs.pace import PartDone, ShardReport
from regard.jobs.part_worker import JobOrder, OpenedJob, message_of
from regard.jobs.ray_engine import NAME, ray_engine
from regard.jobs.storage import Storage
from regard.jobs.tasks import TaskRecord, task_record
from regard.verbs.jobs import Done, LineJob, opened_job
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import ShardOptions, TaskOptions, WorkerOptions

LOCAL = "local"
SENT = ("part_megabytes", "column", "into")  # of how a job is divided, to each process


def run_on_engine(
    opens: str,
    command: str,
    settings: Mapping[str, Any],
    places: tuple[str, str],
    sharding: ShardOptions,
    done: Done | None,
) -> ShardReport:
    """Answer all parts that are not done by the processes of an engine.

    Args:
        opens: MODULE:FUNCTION, which a process calls with the settings of the message.
        settings: of the Python call.
        places: the input, and the output.

    Raises:
        MissingExtra: the engine's package is not installed. RunError: it cannot be reached, or was lost.
    """
    assert sharding.on is not None
    if isinstance(settings["options"], WorkerOptions):
        if settings["options"].workers is not None:
            raise UserError("workers are for one machine", "give --processes")
        settings = {**settings, "options": dataclasses.replace(settings["options"], workers=1)}
    order = JobOrder(
        opens=opens,
        settings={
            "command": command,
            "input": everywhere(places[0]),
            "sharding": {name: getattr(sharding, name) for name in SENT},
            "keywords": as_keywords(settings),
        },
        output=everywhere(places[1]),
    )
    return placed(order, sharding, done, settings["runtime"])[0]


def placed(
    order: JobOrder, where: ShardOptions | TaskOptions, done: Done | None, runtime: Runtime
) -> tuple[ShardReport, dict[int, str]]:
    """Do what is left of a job by processes of an engine; also returns why tasks failed, by number."""
    assert where.on is not None
    gpu = None if runtime.device == "auto" else runtime.device == "cuda"
    resources = {"processes": where.processes, "cpus": runtime.threads or 1, "gpu": gpu}
    with ray_engine(where.on, message_of(order), **resources) as engine:
        placement = Placement(engine, Storage(order.output), done or (lambda done: None))
        return placement.run(), placement.reasons


def run_tasks(
    order: JobOrder,
    tasks: TaskOptions,
    runtime: Runtime,
    name_of: Callable[[int], str],
    done: Callable[[TaskRecord], None] | None,
) -> dict[str, str]:
    """Do the tasks that are left by the processes of an engine; returns why some failed, by name."""

    def ended(part: PartDone) -> None:
        record = task_record(Storage(order.output), name_of(part.part))
        if record is not None and done is not None:
            done(record)

    _, reasons = placed(order, tasks, ended, runtime)
    return {name_of(number): reason for number, reason in sorted(reasons.items())}


def opened(jobs: Mapping[str, Callable[..., LineJob]], settings: Mapping[str, Any], plans: bool) -> OpenedJob:
    """The job of a message, in a process of an engine."""
    job = jobs[settings["command"]](**settings["keywords"])
    inputs = find_inputs([settings["input"]]) if plans else []
    return opened_job(job, inputs, ShardOptions(**settings["sharding"]))


def refuse_unknown_engine(sharding: ShardOptions | TaskOptions) -> None:
    """Raise a ConfigError or UserError unless the options name a shard, or an engine that there is."""
    on = sharding.on
    if on is not None and on not in (NAME, LOCAL) and not on.startswith(f"{NAME}://"):
        raise ConfigError(f"on = {on!r} is not an engine", "known: ray://HOST:PORT, ray, local")
    if on is not None and sharding.shard is not None:
        raise UserError("both a shard and an engine are given", "leave one of them out: --shard or --on")
    if sharding.processes is not None and on in (None, LOCAL):
        raise UserError("processes are for a cluster", "--on ray, or --workers for those of one machine")


def as_keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a Python call as JSON: of its dataclasses the fields that are not their defaults.

    Raises:
        UserError: one of them is not text, number, path or tuple of these.
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and name != "model":
            for field in dataclasses.fields(value):
                if getattr(value, field.name) != field.default:
                    found[field.name] = getattr(value, field.name)
        elif value is not None:
            found[name] = value
    if not isinstance(found.get("model", ""), str | Path):
        raise UserError("an engine's processes load the model themselves", "give its folder as model")
    for name in found.keys() & {
        "model",
        "draft_model",
        "glossary",
    }:  # a path, or a name that each machine knows
        found[name] = everywhere(str(found[name])) if os.path.exists(found[name]) else str(found[name])
    return json.loads(json.dumps(found, default=_as_text))


def everywhere(place: str) -> str:
    """A path that means the same in any working folder; an address stays."""
    return place if "://" in place else os.path.abspath(place)


def _as_text(value: Any) -> str:
    if isinstance(value, Path):
        return everywhere(str(value))
    raise UserError(f"{value!r} cannot be sent to a process of an engine", "give a name or a number")
