"""Part of `make jobs-check`: 10,000 shards by 1,000 workers that are lost, simulated in one process."""

import functools
import random
import time
import tracemalloc
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.checks import Found
from regard.jobs import storage as storages
from regard.jobs.engine import Placement, WorkerLost
from regard.jobs.inputs import find_inputs
from regard.jobs.merge import merge
from regard.jobs.part_record import recorded
from regard.jobs.part_worker import JobOrder, OpenedJob, PartWorker, message_of
from regard.jobs.plan import read_plan
from regard.jobs.progress import problems_of, progress_of
from regard.jobs.storage import Storage
from tests.long.job_processes import capitals, planned, sentences, sha256_of

LINES_A_SHARD = 10
LOST = 0.01  # of the calls
LATE = 0.03  # seconds, as a store of objects takes
OPENS = "tests.long.job_simulation:opened"


def simulated(folder: Path, shards: int) -> Found:
    """A plan of so many files, a tenth as many workers of which some are lost; what each step takes."""
    lines = sentences(shards * LINES_A_SHARD)
    place = folder / "in"
    place.mkdir()
    for number in range(shards):
        part = lines[number * LINES_A_SHARD : (number + 1) * LINES_A_SHARD]
        (place / f"{number:05d}.txt").write_text("".join(f"{line}\n" for line in part))
    storage = Storage(str(folder / "out"))
    storages.os.fsync = lambda file: None  # the disk is not what is measured
    order = JobOrder(opens=OPENS, settings={"input": f"{place}/*"}, output=storage.url)
    times: dict[str, float] = {}
    timed = functools.partial(_timed, times)
    tracemalloc.start()
    timed("plan", lambda: planned(f"{place}/*", 1 << 20).agreed(storage))
    size = len(storage.read("plan.json") or b"")
    fleet = Fleet(order, shards // 10)
    report = timed("answer", lambda: Placement(fleet, storage, lambda done: None).run())
    timed("list", lambda: recorded(storage))
    plan = timed("read the plan", lambda: read_plan(storage))
    timed("status", lambda: progress_of(plan, storage))
    problems = timed("verify", lambda: problems_of(plan, storage))
    timed("merge", lambda: merge(plan, storage, str(folder / "merged")))
    storages.Storage.read = _late(storages.Storage.read)
    timed(f"status where a call takes {LATE * 1000:.0f} ms", lambda: progress_of(plan, storage))
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert problems == []
    expected = sha256_of("".join(f"{line.upper()}\n" for line in lines))
    assert sha256_of((folder / "merged").read_bytes()) == expected
    again = Fleet(order, 1)
    assert Placement(again, storage, lambda done: None).run().lines == 0
    steps = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times.items())
    assert report.lines == len(lines)
    return (
        f"{shards:,} shards, {fleet.workers:,} workers, {fleet.losses:,} lost: {steps}; plan.json {size:,} "
        f"bytes, at most {memory >> 20} MiB; SHA-256 as of one process; a second run did nothing",
        {"shards": shards, "workers": fleet.workers, "lost": fleet.losses, "seconds": times},
    )


def _late(call: Any) -> Any:
    def late(*arguments: Any) -> Any:
        time.sleep(LATE)
        return call(*arguments)

    return late


def _timed(times: dict[str, float], name: str, call: Any) -> Any:
    began = time.monotonic()
    found = call()
    times[name] = time.monotonic() - began
    return found


def opened(settings: dict[str, Any], plans: bool) -> OpenedJob:
    """A job that writes capitals."""
    plan = planned(settings["input"], 1 << 20, inputs=find_inputs([settings["input"]]) if plans else [])
    return OpenedJob(plan=plan, answer=capitals, failure=lambda line, reason: "\n", engine={})


class Fleet:
    """An engine whose workers answer in turn, in this process; before or after an answer some are lost.

    All share one PartWorker, since each alone would read the plan again, which 1,000 machines do at once.
    """

    def __init__(self, order: JobOrder, workers: int) -> None:
        self.workers, self.losses, self._draw = workers, 0, random.Random(1)
        self._worker = PartWorker(message_of(order))
        self._opened = False
        self._calls: deque[tuple[int, int, str, Any]] = deque()
        self._started = 0

    def wanted(self) -> int:
        return self.workers

    def start(self) -> int:
        self._started += 1
        return self._started

    def call(self, worker: int, method: str, argument: Any) -> tuple[int, int, str, Any]:
        self._calls.append((worker, self._draw.getrandbits(60), method, argument))
        return self._calls[-1]

    def ready(self, tickets: Sequence[Any], seconds: float) -> Sequence[Any]:
        return [self._calls.popleft()] if self._calls else []

    def result(self, ticket: tuple[int, int, str, Any]) -> dict[str, Any]:
        _, _, method, argument = ticket
        dice = self._draw.random()
        if dice < LOST / 2:
            self.losses += 1
            raise WorkerLost("killed")
        if method == "open" and self._opened:
            return {"parts": 0}
        found = getattr(self._worker, method)(argument)
        self._opened |= method == "open"
        if dice < LOST:
            self.losses += 1
            raise WorkerLost("killed")
        return found

    def stop(self, worker: int) -> None:
        pass
