"""Jobs of tasks: each is done once by any number of processes, and another job in the folder is refused."""

import json

import pytest

from regard.errors import DataError
from regard.jobs.plan import PLAN, read_plan
from regard.jobs.tasks import TaskPlan, TaskRecord, run_task, task_progress


def plan(**changes):
    tasks = {name: {"src": f"{name}.en", "sha256": {"x": "1"}} for name in "abcde"}
    return TaskPlan(
        **{"command": "evaluate", "version": "1", "settings": {"beam": 2}, "tasks": tasks, **changes}
    )


def record(task, rank=None):
    return TaskRecord(task=task, seconds=1.0, scores={"BLEU": 1.5, "b": None}, result={"x": [1]}, rank=rank)


@pytest.mark.parametrize("shards", [1, 2, 3, 9])
def test_each_task_is_done_once(storage, shards):
    done = []

    def do(task):
        done.append(task)
        return record(task)

    for _ in range(2):
        for shard in range(1, shards + 1):
            plan().agreed(storage)
            for task in plan().shard(shard, shards):
                run_task(storage, task, lambda task=task: do(task))
    assert sorted(done) == [*"abcde"]
    progress = task_progress(storage)
    assert progress is not None
    assert (progress.tasks, progress.missing) == (tuple("abcde"), ())
    assert progress.done == tuple(record(task) for task in "abcde")


def test_a_task_that_fails_has_no_record(storage):
    plan().agreed(storage)

    def failing():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_task(storage, "a", failing)
    progress = task_progress(storage)
    assert progress is not None
    assert progress.missing == tuple("abcde")
    assert run_task(storage, "a", lambda: record("a")) == record("a")
    assert run_task(storage, "a", failing) is None


def test_ranks_give_the_order_and_a_table_has_all_scores(storage):
    plan(command="train").agreed(storage)
    for task, rank in (("a", 2.0), ("b", -1.0), ("c", None), ("d", 0.5)):
        run_task(storage, task, lambda task=task, rank=rank: record(task, rank))
    progress = task_progress(storage)
    assert progress is not None
    assert [each.task for each in progress.done] == ["b", "d", "a", "c"]
    assert progress.table == (["BLEU", "b"], [[each, "1.5", ""] for each in "bdac"])
    assert progress.missing == ("e",)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"command": "train"}, "command was 'evaluate', and is 'train'"),
        ({"version": "2"}, "version was '1', and is '2'"),
        ({"settings": {"beam": 3}}, "beam was 2, and is 3"),
        ({"tasks": {"a": {"src": "a.en", "sha256": {"x": "2"}}}}, "a: sha256: x was '1', and is '2'"),
    ],
)
def test_another_job_is_refused_by_its_difference(storage, changes, named):
    plan().agreed(storage)
    with pytest.raises(DataError, match="is the output of another job") as error:
        plan(**changes).agreed(storage)
    assert named in error.value.message


def test_the_plan_of_another_kind_and_damage_are_named(storage, planned):
    plan().agreed(storage)
    with pytest.raises(DataError, match=r"is that of `regard evaluate`, whose results are scores, not lines"):
        read_plan(storage)
    with pytest.raises(DataError, match="is that of `regard evaluate`"):
        planned().agreed(storage)
    storage.write("results/a.json", b"{")
    with pytest.raises(DataError, match=r"results/a\.json is damaged"):
        task_progress(storage)
    storage.write(PLAN, json.dumps(planned().to_dict()).encode())
    assert task_progress(storage) is None
    with pytest.raises(DataError, match="command was 'capitals', and is 'evaluate'"):
        plan().agreed(storage)
    storage.write(PLAN, b"{")
    with pytest.raises(DataError, match="is damaged"):
        task_progress(storage)


def test_tasks_are_added_after_those_of_the_plan(storage):
    first = plan(tasks={"a": {"n": 1}, "b": {"n": 2}}).agreed(storage)
    more = plan(tasks={"c": {"n": 3}, "a": {"n": 1}})
    with pytest.raises(DataError, match="another job: b only in the folder and c only in this one"):
        more.agreed(storage)
    assert list(more.agreed(storage, adds=True).tasks) == ["a", "b", "c"]
    assert first.agreed(storage, adds=True).tasks == more.agreed(storage, adds=True).tasks
    with pytest.raises(DataError, match="another job: a: n was 1, and is 2"):
        plan(tasks={"a": {"n": 2}}).agreed(storage, adds=True)
