"""Merging: all parts in order, line numbers of the whole, the same bytes each time."""

import gzip
import json

import pytest

from regard.errors import DataError
from regard.jobs.merge import merge
from regard.jobs.shard import run_shard
from tests.jobs.conftest import LINES


def numbered(kind):
    def answer(lines, first):
        if kind == "json":
            return [
                json.dumps({"line": number, "text": f"{line}\u2028"}) + "\n"
                for number, line in enumerate(lines, start=first)
            ]
        return [f"{number}\t-1.0\t{line}\u2028\n" for number, line in enumerate(lines, start=first)]

    return answer


def run(plan, storage, answer):
    run_shard(plan, storage, (1, 1), answer, failure=lambda line, reason: "", engine={})


@pytest.mark.parametrize("kind", ["json", "ranked"])
def test_line_numbers_are_those_of_the_whole(planned, storage, tmp_path, kind):
    plan = planned(format=kind)
    run(plan, storage, numbered(kind))
    assert merge(plan, storage, str(tmp_path / "merged")) == len(LINES)
    lines = (tmp_path / "merged").read_text().split("\n")[:-1]
    if kind == "ranked":
        assert lines == [each.rstrip("\n") for each in numbered(kind)(LINES, 1)]
        return
    tables = [json.loads(line) for line in lines]
    assert [table["line"] for table in tables] == list(range(1, len(LINES) + 1))
    assert [table["text"] for table in tables] == [f"{line}\u2028" for line in LINES]


def test_a_compressed_merge_is_the_same_each_time(planned, storage, tmp_path):
    plan = planned()
    run(plan, storage, lambda lines, first: [f"{line}\n" for line in lines])
    for name in ("one.gz", "two.gz"):
        merge(plan, storage, str(tmp_path / name))
    assert gzip.decompress((tmp_path / "one.gz").read_bytes()).decode() == "".join(
        f"{line}\n" for line in LINES
    )
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


def test_missing_parts_and_a_taken_name_are_refused(planned, storage, tmp_path):
    plan = planned()
    plan.agreed(storage)
    with pytest.raises(DataError, match=r"\d+ of \d+ parts (is|are) not done, the first is part 0"):
        merge(plan, storage, str(tmp_path / "merged"))
    assert not (tmp_path / "merged").exists()
    run(plan, storage, lambda lines, first: [f"{line}\n" for line in lines])
    (tmp_path / "merged").write_text("mine")
    with pytest.raises(DataError, match="merged exists"):
        merge(plan, storage, str(tmp_path / "merged"))
    assert (tmp_path / "merged").read_text() == "mine"


def test_the_target_may_be_in_a_store(planned, storage):
    plan = planned()
    run(plan, storage, lambda lines, first: [f"{line}\n" for line in lines])
    assert merge(plan, storage, f"{storage.url}/whole.txt") == len(LINES)
    assert storage.read("whole.txt") == "".join(f"{line}\n" for line in LINES).encode()
