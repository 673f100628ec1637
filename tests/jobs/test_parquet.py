"""Parquet files as inputs of a job: the same table with one more column, read again by pyarrow and pandas."""

import gzip
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regard.errors import DataError, MissingExtra
from regard.jobs.inputs import find_inputs
from regard.jobs.merge import merge
from regard.jobs.part_record import output_name, read_record
from regard.jobs.plan import read_plan
from regard.jobs.progress import problems_of, progress_of
from regard.jobs.shard import run_shard
from regard.jobs.storage import Storage
from tests.jobs.test_tables import capitals, plan_of

TEXTS = [f"Ää {number} " + "x" * (number % 7) for number in range(200)]


def table_of(texts, **columns):
    return pa.table({"id": list(range(len(texts))), "text": texts, **columns})


def run(folder, pattern, *, shards=1, answer=capitals, name="out", **settings):
    """The merged table, and the rows that failed."""
    plan, storage = plan_of(pattern, **settings), Storage(str(folder / name))
    for number in range(1, shards + 1):
        given = {"failure": lambda line, reason: "never\n", "engine": {}}
        run_shard(plan.agreed(storage), storage, (number, shards), answer, **given)
    planned = read_plan(storage)
    assert problems_of(planned, storage) == []
    target = str(folder / f"{name}.parquet")
    assert merge(planned, storage, target) == pq.read_metadata(target).num_rows
    return pq.read_table(target), progress_of(planned, storage).failed


@pytest.fixture
def files(tmp_path):
    """Two files of 100 rows in groups of 20; their pattern."""
    (tmp_path / "in").mkdir()
    for name, begin in (("a", 0), ("b", 100)):
        path = tmp_path / "in" / f"{name}.parquet"
        pq.write_table(table_of(TEXTS[begin : begin + 100]), path, row_group_size=20, compression="zstd")
    return tmp_path / "in" / "*"


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("part_bytes", [1, 800, 1 << 20])
def test_a_table_gets_a_column_beside_its_own(tmp_path, files, shards, part_bytes):
    found, failed = run(tmp_path, files, shards=shards, part_bytes=part_bytes)
    expected = pa.concat_tables([table_of(TEXTS[:100]), table_of(TEXTS[100:])])
    assert found.drop_columns("new").equals(expected)
    assert found["new"].to_pylist() == [each.upper() for each in TEXTS]
    assert failed == ()
    plan = read_plan(Storage(str(tmp_path / "out")))
    parts = list(plan.parts())
    assert len(parts) in {1: [10], 800: range(3, 10), 1 << 20: [2]}[part_bytes]
    assert plan.table == "parquet"
    [column] = {pq.read_metadata(tmp_path / "out.parquet").row_group(0).column(2).compression}
    assert column == "ZSTD"


def test_a_part_is_a_table(tmp_path, files):
    run(tmp_path, files, part_bytes=800)
    names = sorted(each.name for each in (tmp_path / "out" / "parts").iterdir())
    assert names[:2] == ["00000000.json", "00000000.parquet"]
    record = read_record(Storage(str(tmp_path / "out")), 1)
    part = pq.read_table(tmp_path / "out" / output_name(1, record.suffix))
    assert (len(part), part.column_names) == (record.lines, ["id", "text", "new"])
    again = tmp_path / "again"
    run(again, files, part_bytes=800, shards=2)
    for each in (tmp_path / "out" / "parts").glob("*.parquet"):
        assert each.read_bytes() == (again / "out" / "parts" / each.name).read_bytes()


def test_rows_without_a_text_are_set_aside_and_named(tmp_path):
    texts = pa.array([b"good", None, b"bad!", b"\xff\xfe", b""]).cast(pa.binary())
    odd = pa.Array.from_buffers(pa.string(), 5, texts.buffers())  # as a writer may that checks nothing
    pq.write_table(pa.table({"text": odd}), tmp_path / "a.parquet")
    found, failed = run(tmp_path, tmp_path / "a.parquet")
    assert found["new"].to_pylist() == ["GOOD", None, None, None, ""]
    assert [(line, reason.partition(" (")[0]) for _, line, reason in failed] == [
        (2, "text is null"),
        (3, "has an exclamation mark"),
        (4, "not UTF-8 at byte 1"),
    ]


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_all_types_of_text_are_read(tmp_path, kind):
    texts = pa.array(["a", None, "b", "a"])
    column = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    found, _ = run(tmp_path, tmp_path / "a.parquet")
    assert found["new"].to_pylist() == ["A", None, "B", "A"]
    assert found["text"].to_pylist() == ["a", None, "b", "a"]


@pytest.mark.parametrize("column", ["tr.en", "en", "2"])
def test_a_field_of_a_struct_is_named_as_in_other_tables(tmp_path, column):
    rows = [{"de": "x", "en": "a"}, None, {"de": "y", "en": None}]
    pq.write_table(table_of(["t"] * 3, tr=rows).select(["id", "tr", "text"]), tmp_path / "a.parquet")
    found, failed = run(tmp_path, tmp_path / "a.parquet", column=column)
    assert found["new"].to_pylist() == ["A", None, None]
    assert found["tr"].to_pylist() == rows
    assert [line for _, line, _ in failed] == [2, 3]


@pytest.mark.parametrize(
    ("result", "value", "kind", "read"),
    [
        ("number", 0.5, pa.float64(), 0.5),
        ("vector", [0.5, 1.0], pa.list_(pa.float32()), [0.5, 1.0]),
        ("json", {"a": ["ä"]}, pa.string(), '{"a": ["ä"]}'),
    ],
)
def test_results_have_their_type_even_if_all_rows_fail(tmp_path, result, value, kind, read):
    pq.write_table(table_of(["a", "b!"]), tmp_path / "a.parquet")

    def answer(texts, first):
        capitals(texts, first)
        return [value for _ in texts]

    found, _ = run(tmp_path, tmp_path / "a.parquet", result=result, answer=answer)
    assert (found.schema.field("new").type, found["new"].to_pylist()) == (kind, [read, None])
    pq.write_table(table_of(["c!"]), tmp_path / "b.parquet")
    found, _ = run(tmp_path, tmp_path / "b.parquet", result=result, answer=answer, name="failed")
    assert (found.schema.field("new").type, found["new"].to_pylist()) == (kind, [None])


def test_metadata_stays_and_pandas_reads_the_output(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a", "b"], "n": [1, 2]}, index=["x", "y"])
    frame.to_parquet(tmp_path / "a.parquet")
    run(tmp_path, tmp_path / "a.parquet")
    found = pandas.read_parquet(tmp_path / "out.parquet")
    assert list(found.index) == ["x", "y"]
    assert found["new"].tolist() == ["A", "B"]
    pandas.testing.assert_frame_equal(found[["text", "n"]], frame)


def test_tables_without_rows(tmp_path):
    pq.write_table(
        table_of([]).cast(pa.schema([("id", pa.int64()), ("text", pa.string())])), tmp_path / "a.parquet"
    )
    found, failed = run(tmp_path, tmp_path / "a.parquet")
    assert (len(found), found.column_names, failed) == (0, ["id", "text", "new"], ())


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ({"a": {"text": [1]}}, "the column 'text' has values of type int64, no texts"),
        ({"a": {"texts": ["x"]}}, "no column 'text'"),
        ({"a": {"text": ["x"], "new": [1]}}, "has a column 'new' already"),
        ({"a": {"text": ["x"]}, "b": {"text": ["x"], "z": [1]}}, "b.parquet has other columns than"),
        (
            {"a": {"text": ["x"], "z": ["1"]}, "b": {"text": ["x"], "z": [1]}},
            "'z: int64' in place of 'z: string'",
        ),
    ],
)
def test_unusable_tables_are_named_before_the_work(tmp_path, tables, named):
    (tmp_path / "in").mkdir()
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / "in" / f"{name}.parquet")
    with pytest.raises(DataError) as error:
        run(tmp_path, tmp_path / "in" / "*")
    assert named in error.value.message
    assert not (tmp_path / "out" / "plan.json").exists()


@pytest.mark.parametrize("damage", ["text", "cut", "page"])
def test_a_damaged_file_is_named(tmp_path, damage):
    path = tmp_path / "a.parquet"
    pq.write_table(table_of(TEXTS), path, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    match damage:
        case "text":
            content[:] = b"text\n"
        case "cut":
            del content[-20:]
        case "page":
            content[len(content) // 2 - 400 : len(content) // 2] = bytes(400)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet: no Parquet file, or a damaged one"):
        run(tmp_path, path)
    assert not list((tmp_path / "out").glob("parts/*.json"))


def test_the_merged_file_is_named_by_its_kind(tmp_path, files):
    storage = Storage(str(tmp_path / "out"))
    plan = plan_of(files).agreed(storage)
    run_shard(plan, storage, (1, 1), capitals, failure=lambda line, reason: "", engine={})
    with pytest.raises(DataError, match=r"all\.txt: the outputs are Parquet files"):
        merge(plan, storage, str(tmp_path / "all.txt"))
    (tmp_path / "lines.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n'))
    other = Storage(str(tmp_path / "other"))
    plan = plan_of(tmp_path / "lines.jsonl.gz").agreed(other)
    run_shard(plan, other, (1, 1), capitals, failure=lambda line, reason: "", engine={})
    with pytest.raises(DataError, match=r"all\.parquet: the outputs are lines"):
        merge(plan, other, str(tmp_path / "all.parquet"))
    assert not list(tmp_path.glob("all.*"))


def test_large_tables_are_written_in_several_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.jobs.parquet.GROUP_ROWS", 1500)
    pq.write_table(table_of(TEXTS * 20), tmp_path / "a.parquet")
    found, _ = run(tmp_path, tmp_path / "a.parquet", part_bytes=1 << 20)
    assert found["new"].to_pylist() == [each.upper() for each in TEXTS * 20]
    assert pq.read_metadata(tmp_path / "out.parquet").num_row_groups == 2


def test_a_missing_package_is_named(tmp_path, files, monkeypatch):
    inputs = find_inputs([str(files)])
    assert len(inputs) == 2
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"reading \.parquet files needs pyarrow") as error:
        plan_of(files).agreed(Storage(str(tmp_path / "out")))
    assert error.value.hint == "pip install 'regard[jobs]'"
