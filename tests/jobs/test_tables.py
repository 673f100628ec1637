"""TSV and JSON Lines as inputs of a job: the same table with one more column; odd rows are named."""

import bz2
import gzip
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tables import open_table
from regard.errors import DataError
from regard.jobs.cuts import refuse_others_than_lines
from regard.jobs.inputs import InputFile, find_inputs
from regard.jobs.merge import merge
from regard.jobs.plan import Plan, read_plan
from regard.jobs.progress import problems_of, progress_of
from regard.jobs.shard import run_shard
from regard.jobs.storage import Storage
from regard.jobs.tables import ResultKind, TableColumns, table_kind


def capitals(texts, first):
    if any("!" in each for each in texts):
        raise DataError("has an exclamation mark")
    return [each.upper() for each in texts]


def plan_of(pattern, column="text", part_bytes=40, result: ResultKind = "text", into="new"):
    texts = column.split(",")
    return Plan(
        command="capitals",
        version="1",
        model="hash",
        settings={},
        format="text",
        inputs=find_inputs([str(pattern)]),
        part_bytes=part_bytes,
        columns=TableColumns(texts=tuple(texts), into=into, result=result),
    )


def run(folder, pattern, *, shards=1, answer=capitals, name="out", **settings):
    """The merged output, and the reasons of rows that failed."""
    plan, storage = plan_of(pattern, **settings), Storage(str(folder / name))
    for number in range(1, shards + 1):
        given = {"failure": lambda line, reason: "never\n", "engine": {}}
        run_shard(plan.agreed(storage), storage, (number, shards), answer, **given)
    planned = read_plan(storage)
    assert problems_of(planned, storage) == []
    merge(planned, storage, str(folder / f"{name}.merged"))
    return (folder / f"{name}.merged").read_bytes(), progress_of(planned, storage).failed


ROWS = [(str(number), "Ää " + "x" * (number % 9), "c") for number in range(40)]
NAMES = ("id", "text", "other")


@pytest.fixture(params=["plain", "gz"])
def tables(request, tmp_path):
    """A folder with two TSV files of the rows; its pattern."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, rows in (("a", ROWS[:25]), ("b", ROWS[25:])):
        lines = ["\t".join(each) + "\n" for each in [NAMES, *rows]]
        content = "".join(lines).encode()
        if request.param == "plain":
            (folder / f"{name}.tsv").write_bytes(content)
        else:
            members = [gzip.compress("".join(lines[begin : begin + 4]).encode()) for begin in range(0, 26, 4)]
            (folder / f"{name}.tsv.gz").write_bytes(b"".join(members))
    return folder / "*"


@pytest.mark.parametrize("shards", [1, 3])
def test_a_tsv_file_gets_a_column_beside_its_own(tmp_path, tables, shards):
    found, failed = run(tmp_path, tables, shards=shards)
    rows = [[*NAMES, "new"], *([*row, row[1].upper()] for row in ROWS)]
    assert found.decode() == "".join("\t".join(row) + "\n" for row in rows)
    assert failed == ()
    (tmp_path / "merged.tsv").write_bytes(found)
    assert open_table(tmp_path / "merged.tsv", "tsv").names == (*NAMES, "new")


def test_a_column_by_number_is_of_a_file_without_names(tmp_path):
    (tmp_path / "a.tab").write_text("1\tHi\r\n2\tThere\n3\t")
    found, _ = run(tmp_path, tmp_path / "a.tab", column="1", part_bytes=5)
    assert found == b"1\tHi\tHI\n2\tThere\tTHERE\n3\t\t\n"


CELL = st.sampled_from(["", "a", "ä b", '"q"', '"', "\u2028", "x" * 30, " "])


@given(rows=st.lists(st.tuples(CELL, CELL), max_size=12), size=st.integers(1, 60), end=st.booleans())
def test_rows_keep_their_order_whatever_the_parts(tmp_path_factory, rows, size, end):
    folder = tmp_path_factory.mktemp("job")
    text = "\n".join("\t".join(row) for row in [("a", "b"), *rows]) + "\n" * end
    (folder / "a.tsv.bz2").write_bytes(b"".join(bz2.compress(each) for each in text.encode().split(b" ")))
    (folder / "b.tsv").write_text(text)
    whole, _ = run(folder, folder / "b.tsv", column="b", part_bytes=10_000, name="whole")
    cut, _ = run(folder, folder / "b.tsv", column="b", part_bytes=size, name="cut")
    assert whole == cut
    assert whole.decode().split("\n")[:-1] == [
        "a\tb\tnew",
        *("\t".join([*row, row[1].upper()]) for row in rows),
    ]


def test_odd_rows_of_a_tsv_file_are_set_aside_and_named(tmp_path):
    content = b"id\ttext\n1\tgood\n2\tbad!\n3\n4\ta\tb\n\n5\t\xff\n6\tgood\n"
    (tmp_path / "a.tsv").write_bytes(content)
    found, failed = run(tmp_path, tmp_path / "a.tsv", part_bytes=1000)
    assert found.split(b"\n")[:-1] == [
        b"id\ttext\tnew",
        b"1\tgood\tGOOD",
        b"2\tbad!\t",
        *[b"\t\t"] * 3,  # no rows of two cells
        b"5\t\xff\t",  # not UTF-8, and kept
        b"6\tgood\tGOOD",
    ]
    assert [line for _, line, _ in failed] == [2, 3, 4, 5, 6]
    reasons = [
        "has an exclamation mark",
        "1 columns, but line 1 has 2",
        "3 columns, but",
        "1 columns",
        "not UTF-8",
    ]
    assert all(reason in found for reason, (*_, found) in zip(reasons, failed, strict=True))


def test_a_result_stays_in_its_cell(tmp_path):
    (tmp_path / "a.tsv").write_text("text\na\nb\n")
    results = {"a": "x\ty\nz", "b": "w"}
    found, _ = run(
        tmp_path, tmp_path / "a.tsv", answer=lambda texts, first: [results[each] for each in texts]
    )
    assert found == b"text\tnew\na\tx y z\nb\tw\n"
    found, _ = run(
        tmp_path,
        tmp_path / "a.tsv",
        name="json",
        result="json",
        answer=lambda texts, first: [{"x": "t\t", "v": [0.5]} for each in texts],
    )
    assert found.split(b"\n")[1] == b'a\t{"x": "t\\t", "v": [0.5]}'


def test_a_record_keeps_what_was_in_it(tmp_path):
    lines = ['{"n": 1.10, "text": "Hi", "n": 2}', ' { "text" : "ä" } ', '{"text": "\\ud83d\\ude00"}']
    (tmp_path / "a.jsonl").write_text("\r\n".join(lines))
    found, failed = run(tmp_path, tmp_path / "a.jsonl", part_bytes=10)
    assert found.decode().split("\n")[:-1] == [
        '{"n": 1.10, "text": "Hi", "n": 2, "new": "HI"}',
        '{ "text" : "ä", "new": "Ä"}',
        '{"text": "\\ud83d\\ude00", "new": "\N{GRINNING FACE}"}',
    ]
    assert failed == ()


def test_odd_records_are_set_aside_and_named(tmp_path):
    lines = ['{"text": "a"}', "{}", '{"text": null}', '{"text": 3}', "[1]", "", '{"text": "b", "new": 1}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.jsonl").write_text('{"text": "bad!"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl has a column 'new' already"):
        run(tmp_path, tmp_path / "a.jsonl")
    head = "".join('{"text": "a"}\n' for _ in range(100))
    (tmp_path / "a.jsonl").write_text(head + "\n".join(lines) + "\n")
    found, failed = run(tmp_path, tmp_path / "*.jsonl", name="other")
    assert found.decode().split("\n")[100:-1] == [
        '{"text": "a", "new": "A"}',
        '{"new": null}',
        '{"text": null, "new": null}',
        '{"text": 3, "new": null}',
        '{"new": null}',
        '{"new": null}',
        '{"text": "b", "new": 1}',
        '{"text": "bad!", "new": null}',
    ]
    assert [json.loads(each) for each in found.splitlines()]
    reasons = ["'text' is missing", "'text' is not text", "'text' is not text", "a JSON list", "not JSON"]
    reasons += ["'new' is there already", "has an exclamation mark"]
    assert all(reason in found for reason, (*_, found) in zip(reasons, failed, strict=True))


def test_a_key_within_an_object_and_several_columns(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"translation": {"en": "a", "de": "b"}, "x.y": "c"}\n')
    found, _ = run(tmp_path, tmp_path / "a.jsonl", column="translation.de,x.y,translation.en")
    assert json.loads(found)["new"] == "B\tC\tA"
    (tmp_path / "a.tsv").write_text("en\tx\tde\na\tb\tc\n")
    found, _ = run(tmp_path, tmp_path / "a.tsv", column="de,en", name="other")
    assert found == b"en\tx\tde\tnew\na\tb\tc\tC\tA\n".replace(b"\tC\tA", b"\tC A")


UNUSABLE = [
    ({"a.txt": "x\n"}, "a.txt has no columns"),
    ({"a.csv": "text\nx\n"}, "a.csv has no columns"),
    ({"a.csv.gz": "text\nx\n"}, "a.csv.gz has no columns"),
    ({"a.parquet.gz": "x"}, "a.parquet.gz has no columns"),
    ({"a.tsv": "text\nx\n", "b.jsonl": "{}"}, "b.jsonl is another kind of table than"),
    ({"a.tsv": "Text\tid\n"}, "a.tsv: no column 'text'"),
    ({"a.tsv": "text\ttext\n"}, "a.tsv: 2 columns have the name 'text'"),
    ({"a.tsv": "text\tnew\n"}, "a.tsv has a column 'new' already"),
    ({"a.tsv": "text\tid\n", "b.tsv": "text\tno\n"}, "b.tsv has other columns than"),
    ({"a.tsv": "text\tid\n", "b.tsv": "text\n"}, "1 in place of 2"),
    ({"a.tsv": "\ufeff\xff"}, "a.tsv: no column 'text'"),
    ({"a.jsonl": '{"texts": 1}\n'}, "a.jsonl: no record has the key 'text'"),
    ({"a.jsonl": "no\n"}, "a.jsonl: no record has the key 'text'"),
]


@pytest.mark.parametrize(("files", "named"), UNUSABLE)
def test_unusable_tables_are_named_before_the_work(tmp_path, files, named):
    (tmp_path / "in").mkdir()
    for name, content in files.items():
        (tmp_path / "in" / name).write_text(content)
    with pytest.raises(DataError) as error:
        run(tmp_path, tmp_path / "in" / "*")
    assert named in error.value.message
    assert error.value.hint
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_the_kind_of_a_table_is_that_of_its_name():
    names = [
        "a.tsv",
        "a.TSV.gz",
        "a.tab.zst",
        "s3://b/a.jsonl.xz",
        "a.ndjson",
        "a.json",
        "a.parquet",
        "a.gz",
        "a",
    ]
    kinds = [table_kind(each) for each in names]
    assert kinds == ["tsv", "tsv", "tsv", "jsonl", "jsonl", "jsonl", "parquet", None, None]


def test_another_column_is_another_job(tmp_path, tables):
    storage = Storage(str(tmp_path / "out"))
    plan_of(tables).agreed(storage)
    with pytest.raises(DataError, match=r"into was 'new', and is 'other'"):
        plan_of(tables, into="other").agreed(storage)
    with pytest.raises(DataError, match=r"texts was \('text',\), and is \('id',\)"):
        plan_of(tables, column="id").agreed(storage)


def test_empty_files_and_tables_without_rows(tmp_path):
    (tmp_path / "a.tsv").write_text("")
    (tmp_path / "b.tsv").write_text("text\tid\n")
    (tmp_path / "c.tsv").write_text("text\tid\na\t1")
    found, failed = run(tmp_path, tmp_path / "*.tsv", part_bytes=3)
    assert (found, failed) == (b"text\tid\tnew\na\t1\tA\n", ())
    assert list(itertools.chain(failed)) == []


@pytest.mark.parametrize("name", ["reviews.csv.txt", "v2.jsonl.txt.gz", "dump.conll.txt"])
def test_only_the_last_ending_of_a_name_makes_a_table(name):
    refuse_others_than_lines([InputFile(url=name, size=1, stamp="1")])
    for table in ("a.csv", "a.jsonl.gz", "a.b.parquet"):
        with pytest.raises(DataError, match="is a table"):
            refuse_others_than_lines([InputFile(url=table, size=1, stamp="1")])
