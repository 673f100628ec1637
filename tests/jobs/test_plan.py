"""The plan: the same for all processes of a job, and another job is refused by its first difference."""

import json
import threading

import pytest

from regard.errors import DataError
from regard.jobs.inputs import find_inputs
from regard.jobs.plan import PLAN, difference, read_plan
from regard.jobs.storage import Storage


def test_parts_cover_the_inputs_in_order(planned):
    plan = planned()
    parts = list(plan.parts())
    assert [part.number for part in parts] == list(range(len(parts)))
    for file in plan.inputs:
        ranges = [(part.begin, part.end) for part in parts if part.file == file]
        assert [ranges[0][0], *(end for _, end in ranges)] == [*(begin for begin, _ in ranges), file.size]


@pytest.mark.parametrize(
    ("format", "size", "parts"),
    [("text", 9_000, 1), ("text", 1 << 20, 64), ("text", 1 << 29, 128), ("tokens", 1 << 20, 1)],
)
def test_a_small_input_has_parts_too_so_that_little_is_lost(planned, tmp_path, format, size, parts):
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(size)
    plan = planned(inputs=find_inputs([str(tmp_path / "large.txt")]), format=format, part_bytes=None)
    assert len(list(plan.parts())) == parts


def test_the_size_of_parts_is_that_of_the_plan_unless_another_is_given(planned, storage):
    planned().agreed(storage)
    assert planned(part_bytes=None).agreed(storage) == planned()


@pytest.mark.parametrize("shards", [1, 2, 3, 50])
def test_each_part_belongs_to_one_shard(planned, shards):
    plan = planned()
    numbers = [part.number for shard in range(1, shards + 1) for part in plan.parts_of(shard, shards)]
    assert sorted(numbers) == [part.number for part in plan.parts()]


def test_a_compressed_file_is_one_part(planned, tmp_path):
    (tmp_path / "c.gz").write_bytes(b"x" * 10_000)
    (tmp_path / "empty").write_bytes(b"")
    files = find_inputs([str(tmp_path / "c.gz"), str(tmp_path / "empty")])
    assert [part.file.url for part in planned(inputs=files).parts()] == [files[0].url]


def test_all_processes_agree_and_one_of_them_writes_it(planned, storage, monkeypatch):
    written = []
    create = Storage.create
    monkeypatch.setattr(
        Storage, "create", lambda self, *given: written.append(create(self, *given)) or written[-1]
    )
    found = []
    threads = [threading.Thread(target=lambda: found.append(planned().agreed(storage))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [planned()] * 8
    assert written.count(True) == 1
    assert read_plan(storage) == planned()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"settings": {"beam_size": 3}}, "beam_size was None, and is 3"),
        ({"command": "others"}, "command was 'capitals', and is 'others'"),
        ({"model": "other"}, "model was 'hash', and is 'other'"),
        ({"model": "other", "model_path": "runs/b"}, "model was 'hash', and is 'runs/b'"),
        ({"version": "2"}, "version was '1', and is '2'"),
        ({"part_bytes": 3 << 19}, "--part-megabytes was 0.5, and is 1.5"),
        ({"format": "json"}, "format was 'text', and is 'json'"),
    ],
)
def test_another_job_is_refused_by_its_difference(planned, storage, change, named):
    planned(**{name: 1 << 19 for name in change if name == "part_bytes"}).agreed(storage)
    with pytest.raises(DataError, match="is the output of another job") as error:
        planned(**change).agreed(storage)
    assert named in str(error.value)


def test_a_model_trained_further_in_its_folder_is_named_and_its_hashes_are_not():
    old, new = 64 * "0", 64 * "1"
    assert difference("model", old, new, {old: "run", new: "run"}) == "model 'run' has changed"
    assert difference("a.en", old, new, {}) == "a.en has changed"
    assert difference("metrics", [old], [], {old: "run"}) == "metrics was ['run'], and is []"


@pytest.mark.parametrize("change", ["changed", "other", "fewer"])
def test_other_inputs_are_refused(planned, storage, inputs, tmp_path, change):
    planned().agreed(storage)
    match change:
        case "changed":
            (tmp_path / "in" / "a.txt").write_text("another\n")
        case "other":
            (tmp_path / "in" / "a.txt").rename(tmp_path / "in" / "0.txt")
        case "fewer":
            (tmp_path / "in" / "b.txt").unlink()
    named = {"changed": "a.txt has changed", "other": "its input was ", "fewer": "it had 2 inputs, and has 1"}
    with pytest.raises(DataError, match=named[change]):
        planned(inputs=find_inputs([inputs])).agreed(storage)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "is damaged"),
        (b"[]", "is damaged"),
        (b"{}", "has format None"),
        (b'{"format_version": 2}', "has format 2, this version of regard reads 1"),
        (b'{"format_version": 1}', "is damaged"),
        (b'{"format_version": 1, "other": 1}', "unknown key 'other'"),
    ],
)
def test_a_damaged_plan_is_refused(planned, storage, content, named):
    storage.write(PLAN, content)
    with pytest.raises(DataError, match=named):
        planned().agreed(storage)
    assert storage.read(PLAN) == content


def test_a_folder_without_a_plan_is_named(storage):
    storage.write("other", b"")
    with pytest.raises(DataError, match=r"has no plan\.json"):
        read_plan(storage)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere does not exist"):
        read_plan(Storage(str(tmp_path / "nowhere")))


def test_the_plan_says_what_it_is(planned, storage):
    planned().agreed(storage)
    table = json.loads(storage.read(PLAN))
    assert (table["format_version"], table["command"], len(table["inputs"])) == (1, "capitals", 2)
