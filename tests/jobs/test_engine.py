"""Parts on an engine: processes are lost at any call, and the output is that of one process."""

import json
import random
import time
from dataclasses import dataclass

import pytest

from regard.errors import DataError, RunError
from regard.jobs import engine as engines
from regard.jobs.engine import Placement, WorkerLost
from regard.jobs.inputs import find_inputs
from regard.jobs.merge import merge
from regard.jobs.part_record import recorded
from regard.jobs.part_worker import JobOrder, OpenedJob, OpenedTasks, PartWorker, message_of
from regard.jobs.plan import Plan
from regard.jobs.tasks import TaskPlan, TaskRecord, task_progress
from tests.jobs.conftest import LINES

WHOLE = "".join(f"{line.upper()}\n" for line in LINES).encode()


def opened(settings, plans):
    """What a message of these tests names."""
    if settings.get("broken"):
        raise DataError("broken model", "mend it")
    if settings.get("flaw"):
        raise KeyError("flaw")

    def answer(lines, first):
        if settings.get("store") == "fails":
            raise RunError("the store is away", "wait")
        return [f"{line.upper()}\n" for line in lines]

    plan = Plan(
        command="capitals",
        version="1",
        model=settings.get("model", "hash"),
        settings={},
        format="text",
        inputs=find_inputs([settings["input"]]) if plans else [],
        part_bytes=300,
    )
    return OpenedJob(plan=plan, answer=answer, failure=lambda line, reason: "\n", engine={})


class Threadless:
    """An engine whose calls run when they are waited for; `lost` says which of them lose their process."""

    def __init__(self, order, processes=3, lost=lambda method, argument: False):
        self.order, self.processes, self.lost = message_of(order), processes, lost
        self.started = self.stopped = 0
        self.draw = random.Random(1)

    def wanted(self):
        return self.processes

    def start(self):
        self.started += 1
        return PartWorker(self.order)

    def call(self, worker, method, argument):
        return Call(worker, method, argument)

    def ready(self, tickets, seconds):
        return [self.draw.choice(tickets)] if tickets else []

    def result(self, ticket):
        kind = self.lost(ticket.method, ticket.argument)
        if kind == "before":
            raise WorkerLost("killed")
        found = getattr(ticket.worker, ticket.method)(ticket.argument)
        if kind == "after":  # its output is written
            raise WorkerLost("killed")
        return json.loads(json.dumps(found))

    def stop(self, worker):
        self.stopped += 1


@dataclass(frozen=True, eq=False)
class Call:
    """A ticket."""

    worker: object
    method: str
    argument: object


@pytest.fixture
def order(inputs, storage):
    def made(**settings):
        return JobOrder(
            opens=f"{__name__}:opened", settings={"input": inputs, **settings}, output=storage.url
        )

    return made


def run(engine, storage, seen=None):
    return Placement(engine, storage, (seen if seen is not None else []).append).run()


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_output_is_that_of_one_process_whatever_is_lost(order, storage, tmp_path, share):
    draw, seen = random.Random(3), []
    engine = Threadless(
        order(), lost=lambda *given: draw.random() < share and draw.choice(["before", "after"])
    )
    report = run(engine, storage, seen)
    assert report.lines == len(LINES)
    assert sorted(each.part for each in seen) == sorted(recorded(storage)) == list(range(report.parts))
    assert seen[-1].parts_done == seen[-1].parts == report.parts
    assert seen[-1].seconds_left == 0
    merge(opened(order().settings, True).plan, storage, str(tmp_path / "merged"))
    assert (tmp_path / "merged").read_bytes() == WHOLE
    assert (engine.started > 3) == bool(share)
    again = run(Threadless(order()), storage)
    assert (again.done_before, again.lines) == (report.parts, 0)


def test_all_processes_are_ended(order, storage):
    engine = Threadless(order())
    run(engine, storage)
    assert engine.stopped == engine.started == 3


@pytest.mark.parametrize(
    ("settings", "error", "named"),
    [
        ({"broken": True}, DataError, "broken model"),
        ({"flaw": True}, RunError, "KeyError: 'flaw'"),
        ({"store": "fails"}, RunError, "the store is away"),
        ({"input": "/nowhere/*"}, DataError, "there is no such file"),
    ],
)
def test_errors_of_a_process_are_those_of_the_command(order, storage, monkeypatch, settings, error, named):
    monkeypatch.setattr("regard.jobs.shard.WAIT", 0.0)
    monkeypatch.setattr(PartWorker, "answer", fails_as(settings) or PartWorker.answer)
    engine = Threadless(order(**settings))
    with pytest.raises(error, match=named):
        run(engine, storage)
    assert recorded(storage) == set()


def fails_as(settings):
    """A store that is away is an error of the process, not of a line."""
    if settings.get("store"):
        return lambda self, part: {"error": ["RunError", "the store is away", "wait"]}
    return None


def test_another_job_in_the_folder_is_refused(order, storage):
    run(Threadless(order()), storage)
    with pytest.raises(DataError, match="model was 'hash', and is 'other'"):
        run(Threadless(order(model="other")), storage)


def test_a_process_that_would_compute_something_else_is_refused(order, storage):
    run(Threadless(order(), lost=lambda method, argument: False), storage)
    worker = PartWorker(message_of(order(model="other")))
    assert "model was 'hash', and is 'other'" in worker.open(False)["error"][1]


def test_a_part_that_ends_every_process_is_named(order, storage):
    engine = Threadless(
        order(), lost=lambda method, argument: method == "answer" and argument == 4 and "before"
    )
    with pytest.raises(DataError, match="part 4 has ended 5 processes: killed"):
        run(engine, storage)
    assert engine.stopped == engine.started - 5


def test_processes_that_never_start_are_named(order, storage):
    engine = Threadless(order(), lost=lambda method, argument: "before")
    with pytest.raises(RunError, match="5 processes have ended one after another while they started"):
        run(engine, storage)


def test_many_that_are_lost_while_they_start_do_not_end_a_job(order, storage):
    draw = random.Random(1)
    lost = lambda method, argument: method == "open" and draw.random() < 0.3 and "before"  # noqa: E731
    engine = Threadless(order(), processes=12, lost=lost)
    assert run(engine, storage).lines == len(LINES)
    assert engine.started > 12


def test_a_cluster_without_room_is_named(order, storage, monkeypatch):
    engine = Threadless(order())
    engine.ready = lambda tickets, seconds: []
    monkeypatch.setattr(engines, "LONGEST_START", 0.0)
    with pytest.raises(RunError, match="no process has started"):
        run(engine, storage)


def test_a_first_process_that_took_long_to_start_does_its_parts(order, storage, monkeypatch):
    monkeypatch.setattr(engines, "LONGEST_START", 0.2)
    engine = Threadless(order(), lost=lambda method, argument: method == "open" and time.sleep(0.3))
    assert run(engine, storage).lines == len(LINES)


def opened_tasks(settings, plans):
    """Tasks, of which some fail."""

    def do(name):
        if name == "refused":
            raise DataError("no such file", "check the path")
        if name == "flawed":
            raise KeyError("flaw")
        return TaskRecord(task=name, seconds=1.0, scores={}, result={})

    tasks = {name: {} for name in settings["tasks"]}
    return OpenedTasks(plan=TaskPlan(command="try", version="1", settings={}, tasks=tasks), do=do)


def test_tasks_that_fail_or_end_their_process_are_named_and_the_others_are_done(storage):
    names = ["one", "refused", "deadly", "flawed", "two"]
    settings = {"tasks": names}
    order = JobOrder(opens=f"{__name__}:opened_tasks", settings=settings, output=storage.url)
    deadly = names.index("deadly")
    engine = Threadless(
        order, lost=lambda method, argument: method == "answer" and argument == deadly and "before"
    )
    seen = []
    placement = Placement(engine, storage, seen.append)
    report = placement.run()
    assert (report.lines, report.failed, len(seen)) == (2, 3, 5)
    assert {names[number]: reason for number, reason in placement.reasons.items()} == {
        "refused": "no such file (check the path)",
        "deadly": "it has ended 5 processes: killed",
        "flawed": "KeyError: 'flaw'",
    }
    progress = task_progress(storage)
    assert progress is not None
    assert set(progress.missing) == {"refused", "deadly", "flawed"}
    settings["tasks"] = names[::-1]  # given again in another order
    again = Placement(Threadless(order), storage, seen.append)
    assert again.run().done_before == 2
    assert again.reasons.keys() == {1, 3}
    assert task_progress(storage).missing == ("refused", "flawed")
