"""Shards: the same output by any number of processes in any order; failing lines and stores lose nothing."""

import random

import pytest

from regard.errors import DataError, Interrupted, RunError
from regard.jobs import shard
from regard.jobs import storage as storages
from regard.jobs.merge import merge
from regard.jobs.part_record import output_name, read_record, record_name, recorded
from regard.jobs.progress import problems_of, progress_of
from regard.jobs.shard import run_shard
from tests.jobs.conftest import LINES

WHOLE = "".join(f"{line.upper()}\n" for line in LINES).encode()


def capitals(lines, first):
    return [f"{line.upper()}\n" for line in lines]


def run(plan, storage, number=1, shards=1, answer=capitals, **settings):
    given = {"failure": lambda line, reason: "\n", "engine": {"device": "cpu"}, **settings}
    return run_shard(plan, storage, (number, shards), answer, **given)


def merged(plan, storage, tmp_path):
    merge(plan, storage, str(tmp_path / "merged"))
    content = (tmp_path / "merged").read_bytes()
    (tmp_path / "merged").unlink()
    return content


@pytest.mark.parametrize("shards", [1, 3, 40])
def test_the_output_is_that_of_one_process(planned, storage, tmp_path, shards):
    plan = planned().agreed(storage)
    order = random.Random(shards).sample(range(1, shards + 1), shards)
    reports = [run(plan, storage, number, shards) for number in order]
    assert sum(report.lines for report in reports) == len(LINES)
    assert merged(plan, storage, tmp_path) == WHOLE
    assert problems_of(plan, storage) == []


def test_what_is_done_is_not_done_again(planned, storage):
    plan = planned()
    run(plan, storage, 1, 2)
    before = recorded(storage)

    def never(lines, first):
        raise AssertionError

    again = run(plan, storage, 1, 2, answer=never)
    assert (again.done_before, again.lines) == (len(before), 0)
    report = run(plan, storage)
    assert report.done_before == len(before)
    assert progress_of(plan, storage).missing == ()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, lambda: Interrupted(15, "stopped"), SystemExit])
def test_a_process_that_is_stopped_leaves_whole_parts_only(planned, storage, tmp_path, stop):
    plan, answered = planned(), []

    def stopped(lines, first):
        answered.append(lines)
        if len(answered) == 4:
            raise stop()
        return capitals(lines, first)

    with pytest.raises((KeyboardInterrupt, Interrupted, SystemExit)):
        run(plan, storage, answer=stopped)
    assert len(recorded(storage)) == 3
    run(plan, storage)
    assert merged(plan, storage, tmp_path) == WHOLE


@pytest.mark.parametrize("error", [DataError("too long"), RuntimeError("out of memory"), ValueError("odd")])
def test_a_line_that_fails_is_set_aside_with_its_reason(planned, storage, tmp_path, error):
    bad = {LINES[7], LINES[60], LINES[61]}

    def failing(lines, first):
        if bad & {*lines}:
            raise error
        return capitals(lines, first)

    plan = planned()
    report = run(plan, storage, answer=failing)
    assert (report.failed, report.lines) == (3, len(LINES))
    expected = [b"" if line in bad else line.upper().encode() for line in LINES]
    assert merged(plan, storage, tmp_path).split(b"\n")[:-1] == expected
    found = progress_of(plan, storage).failed
    assert [reason for *_, reason in found] == [str(error)] * 3
    assert found[0][1] == 8


def test_a_line_that_is_not_utf8_is_set_aside(planned, storage, tmp_path):
    path = tmp_path / "in" / "a.txt"
    path.write_bytes(b"good\n\xff\xfe bad\ngood\n")
    from regard.jobs.inputs import find_inputs

    plan = planned(inputs=find_inputs([str(path)]))
    run(plan, storage)
    [(_, line, reason)] = progress_of(plan, storage).failed
    assert (line, "not UTF-8" in reason) == (2, True)
    assert merged(plan, storage, tmp_path) == b"GOOD\n\nGOOD\n"


def test_a_lost_answer_is_no_output(planned, storage):
    with pytest.raises(AssertionError, match="answers to"):
        run(planned(), storage, answer=lambda lines, first: capitals(lines[1:], first))
    assert recorded(storage) == set()


def test_an_input_that_changes_while_it_is_read_is_refused(planned, storage, tmp_path):
    def changing(lines, first):
        (tmp_path / "in" / "a.txt").write_text("another\n")
        return capitals(lines, first)

    with pytest.raises(DataError, match="has changed since the job was planned"):
        run(planned(), storage, answer=changing)
    assert recorded(storage) == set()


def test_a_store_that_fails_now_and_then_loses_nothing(planned, storage, tmp_path, monkeypatch):
    monkeypatch.setattr(storages, "FIRST_WAIT", 0.0)
    dice, failures = random.Random(1), []

    def failing(call):
        def called(*arguments, **keywords):
            result = call(*arguments, **keywords)  # a call may have worked, although its answer was lost
            if dice.random() < 0.2:
                failures.append(1)
                raise ConnectionError("reset by peer")
            return result

        return called

    for name in ("_write", "_create"):
        monkeypatch.setattr(storages.Storage, name, failing(getattr(storages.Storage, name)))
    monkeypatch.setattr(type(storage.files), "cat_file", failing(type(storage.files).cat_file))
    monkeypatch.setattr(type(storage.files), "info", failing(type(storage.files).info))
    plan = planned().agreed(storage)
    for number in (2, 1):
        run(plan, storage, number, 2)
    assert merged(plan, storage, tmp_path) == WHOLE
    assert len(failures) > 10


def test_a_store_that_always_fails_is_named(planned, storage, monkeypatch):
    monkeypatch.setattr(storages, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(shard, "WAIT", 0.0)

    def full(self, *given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storages.Storage, "_write", full)
    with pytest.raises(RunError, match="No space left on device"):
        run(planned(), storage)
    assert recorded(storage) == set()


def test_a_damaged_output_is_found_and_done_again(planned, storage, tmp_path):
    plan = planned()
    run(plan, storage)
    storage.write(output_name(2), b"other")
    storage.write(record_name(3), b"{")
    found = problems_of(plan, storage)
    assert [("part 2" in each, "00000003.json is damaged" in each) for each in found] == [
        (True, False),
        (False, True),
    ]
    for part, named in ((3, "00000003.json is damaged"), (2, "00000002.txt is not what was recorded")):
        with pytest.raises(DataError, match=named):
            merge(plan, storage, str(tmp_path / "merged"))
        storage.files.rm(f"{storage.path}/{record_name(part)}")
        run(plan, storage)
    assert merged(plan, storage, tmp_path) == WHOLE


def test_records_tell_what_was_done(planned, storage):
    seen = []
    run(planned(), storage, done=seen.append)
    record = read_record(storage, 0)
    assert record.engine == {"device": "cpu"}
    assert (seen[0].part, seen[0].lines, seen[0].seconds) == (0, record.lines, record.seconds)
    assert sum(each.lines for each in seen) == len(LINES)
    assert [each.parts_done for each in seen] == list(range(1, len(seen) + 1))
    assert seen[0].seconds_left > seen[-1].seconds_left == 0
