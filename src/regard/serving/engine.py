"""A loaded model and what answers its requests: workers, or a thread where there can be none."""

from dataclasses import dataclass, replace
from pathlib import Path

from regard.errors import UserError
from regard.serving.job_runner import JobRunner
from regard.serving.scheduler import Observer, QueueLimits, Scheduler
from regard.serving.workers import CAN_FORK, Workers
from regard.verbs.serve import ServedModel
from regard.verbs.shared.device import choose_device, choose_workers
from regard.verbs.shared.runtime import DecodingRuntime


@dataclass(frozen=True)
class Engine:
    """A loaded model, and what answers its requests."""

    model: ServedModel
    runner: JobRunner


def load_engine(
    path: Path | None,
    observer: Observer,
    *,
    workers: int | None,
    runtime: DecodingRuntime,
    limits: QueueLimits,
) -> Engine:
    """Load a model, and begin its workers: by default one for each core, or one with `runtime.threads`.

    With 0 workers, on a GPU, and on systems other than Linux a thread of this process answers.

    Raises:
        RegardError: the model cannot be loaded, or this number of workers is impossible.
    """
    device = choose_device(runtime)
    can_fork = CAN_FORK and device.type == "cpu"
    if workers and not can_fork:
        raise UserError(f"--workers {workers}: workers are for a CPU and Linux", "leave out --workers")
    if workers == 0 or not can_fork:
        model = ServedModel(path, runtime)
        model.prepare()
        return Engine(model, Scheduler(limits, observer))
    number = choose_workers(workers, device, runtime.threads)
    model = ServedModel(path, replace(runtime, threads=1))  # a fork could not use threads of its parent
    model.prepare()
    return Engine(
        model, Workers(model, number, threads=runtime.threads or 1, limits=limits, observer=observer)
    )
