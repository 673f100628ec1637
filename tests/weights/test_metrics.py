import math
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import FolderError
from regard.weights.metrics import append_record, cut_records, flush_records, read_records


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_records_come_back_in_order_one_a_line(path):
    records = [{"kind": "train", "step": i, "loss": 1 / 3 + i, "text": "ü\n\r\u2028"} for i in range(5)]
    for record in records:
        append_record(path, record)
    assert read_records(path) == records
    assert path.read_bytes().count(b"\n") == 5


def test_no_file_is_no_records(path):
    assert read_records(path) == []
    cut_records(path, 3)
    flush_records(path)
    assert not path.exists()


def test_what_is_not_finite_becomes_null_however_deep(path):
    append_record(path, {"loss": math.nan, "scores": {"bleu": math.inf, "all": [1.0, -math.inf]}})
    assert read_records(path) == [{"loss": None, "scores": {"bleu": None, "all": [1.0, None]}}]


def test_cutting_back_leaves_what_was_measured_up_to_the_step(path):
    for step in (1, 2, 3, 4):
        append_record(path, {"kind": "train", "step": step})
        append_record(path, {"kind": "validation", "step": step})
    append_record(path, {"kind": "test"})
    cut_records(path, 2)
    assert [record.get("step") for record in read_records(path)] == [1, 1, 2, 2, None]
    append_record(path, {"step": 3})
    assert read_records(path)[-1] == {"step": 3}


@given(length=st.integers(0, 200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_a_line_cut_short_by_a_kill_is_left_out_and_goes_when_cut_back(path, length):
    whole = b"".join(b'{"kind": "train", "step": %d}\n' % step for step in range(9))
    path.write_bytes(whole[:length])
    records = read_records(path)
    assert [record["step"] for record in records] == list(range(length // 29))
    cut_records(path, 100)
    append_record(path, {"step": 100})
    assert read_records(path) == [*records, {"step": 100}]


def test_zeros_that_a_power_cut_leaves_at_the_end_are_left_out(path):
    append_record(path, {"step": 1})
    with path.open("ab") as file:
        file.write(b"\0" * 500)
    assert read_records(path) == [{"step": 1}]


def test_a_damaged_line_in_the_middle_is_named(path):
    path.write_bytes(b'{"step": 1}\n{"step": NaN}\n{"step": 3}\n')
    with pytest.raises(FolderError, match=r"metrics\.jsonl, line 2: NaN"):
        read_records(path)


def test_flushed_records_are_on_disk(path, monkeypatch):
    append_record(path, {"step": 1})
    flushed, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(os.fstat(number).st_ino) or fsync(number))
    flush_records(path)
    assert flushed == [path.stat().st_ino]


def test_a_step_that_is_no_number_is_a_record_about_the_whole_run(path):
    for record in ({"step": None}, {"step": "9"}, {"step": 9}):
        append_record(path, record)
    cut_records(path, 0)
    assert read_records(path) == [{"step": None}, {"step": "9"}]


def test_a_record_whose_line_has_no_end_may_be_cut_short_and_is_left_out(path):
    path.write_bytes(b'{"step": 1}\n{"step": 2}')
    assert read_records(path) == [{"step": 1}]
    cut_records(path, 5)
    assert path.read_bytes() == b'{"step": 1}\n'


def test_no_file_stays_open(path):
    def next_descriptor():
        descriptor = os.open(path.parent, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = next_descriptor()
    append_record(path, {"step": 1})
    flush_records(path)
    assert read_records(path) == [{"step": 1}]
    assert next_descriptor() == before
