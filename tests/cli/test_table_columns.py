"""The texts of a table's column, for every command that reads lines: the same cells as `regard new` reads."""

import csv
import json
import re

import pytest

from regard.cli import run
from regard.errors import DataError, UserError
from regard.verbs.classify import Classifier, cells_of
from regard.verbs.shared.answered_table import AnsweredTable
from regard.verbs.shared.lines import texts_of
from regard.verbs.tag import tag_file
from regard.verbs.translate import translate

CSV = 'id,text,label\n0,"one, two",a\n1,"three\nfour",b\nid,text,label\n2,,a\n'
TEXTS = ["one, two", "three four", ""]


def table(folder, name, content):
    (folder / name).write_text(content)
    return folder / name


def test_records_without_text_have_a_line_and_repeated_headers_are_named(tmp_path, capsys):
    file = table(tmp_path, "a.csv", "text,who\na,1\n,\nb,2\ntext,who\nc,3\n")
    assert list(texts_of(file, "text")) == ["a", "", "b", "c"]
    warning = " ".join(capsys.readouterr().err.split())
    assert "1 line repeats the names of the columns, and no record: line 5" in warning


@pytest.mark.parametrize("column", ["text", "1"])
def test_a_column_of_csv_is_read_as_a_text_for_each_record(tmp_path, column):
    assert list(texts_of(table(tmp_path, "a.csv", CSV), column)) == TEXTS


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text;label\n"one; two";1,5\n'),
        ("a.tsv", "text\tlabel\none; two\ta\n"),
        ("a.jsonl", '{"text": "one; two", "label": 1}\n'),
    ],
)
def test_columns_of_other_tables_are_read_as_well(tmp_path, name, content):
    assert list(texts_of(table(tmp_path, name, content), "text")) == ["one; two"]


def test_a_table_without_a_column_is_not_read_as_lines(tmp_path):
    file = table(tmp_path, "a.csv", CSV)
    with pytest.raises(UserError, match=r"a table \(CSV\), not lines") as error:
        texts_of(file, None)
    assert "--column NAME" in error.value.hint
    with pytest.raises(DataError, match="no column 'txt'"):
        texts_of(file, "txt")
    lines = table(tmp_path, "a.txt", "Hello\n")
    with pytest.raises(UserError, match="is no table"):
        texts_of(lines, "text")
    assert list(texts_of(lines, None)) == ["Hello"]


def test_lines_with_tabs_of_a_file_called_tsv_are_rows_not_texts(tmp_path, encoder_folder, capsys):
    rows, lines = table(tmp_path, "a.tsv", "text\tlabel\na\t1\n"), table(tmp_path, "b.tsv", "a\nb\n")
    for verb, model in (
        ("classify", encoder_folder("classification", ("no", "yes"))),
        ("tag", encoder_folder("tokens", ("A", "B"))),
    ):
        for more in ((), ("--shard", "1/1", "--output", str(tmp_path / "out"))):
            assert run([verb, "--model", str(model), "--input", str(rows), *more]) == 2
            printed = capsys.readouterr()
            assert "is a table" in printed.err or "a table (tab-separated values)" in printed.err
            assert "--column NAME" in printed.err
            assert printed.out == ""
    assert list(texts_of(lines, None)) == ["a", "b"]
    assert len(tag_file(rows, model=model)) == 2
    assert "each line is read as a text, with all its columns" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("name", "content", "output", "expected"),
    [
        ("a.csv", 'id;text\n1;"Good; night."\n2;\n', "o.csv", ["id;text;de", '1;"Good; night.";X', "2;;"]),
        ("a.csv", "id,text\n1,Hi.\n", "o.tsv", ["id\ttext\tde", "1\tHi.\tX"]),
        (
            "a.jsonl",
            '{"id": 1, "text": "Yes, sir."}\n{"id": 2}\n',
            "o.csv",
            ["id,text,de", '1,"Yes, sir.",X', "2,,"],
        ),
        (
            "a.jsonl",
            '{"text": "Hi.",  "l": [1]} \n{"id": "\\u00e4", "o": {"x": null}}\n{ }\n',
            "o.jsonl",
            [
                '{"text": "Hi.",  "l": [1], "de": X}',
                '{"id": "\\u00e4", "o": {"x": null}, "de": ""}',
                '{"de": ""}',
            ],
        ),
        ("a.csv", "id,text\n1,Hi.\n", "o.ndjson", ['{"id": "1", "text": "Hi.", "de": X}']),
    ],
)
def test_a_table_is_written_with_the_answers_in_one_more_column(tmp_path, name, content, output, expected):
    file, out = table(tmp_path, name, content), tmp_path / output
    command = ["translate", "--input", str(file), "--column", "text", "--output", str(out), "--threads", "1"]
    assert run([*command, "--into", "de"]) == 0
    found = translate(["Good; night.", "Hi.", "Yes, sir."], threads=1)
    lines = [
        re.sub("|".join(f'"?{text}"?' for text in found), "X", line) for line in out.read_text().splitlines()
    ]
    assert lines == expected


def test_late_keys_of_json_are_columns_and_lists_are_named_once(tmp_path, capsys):
    records = [{"text": "a", "o": {"n": 1, "l": [2]}, "no": None}, *([{"text": "b"}] * 1000)]
    late = {"text": ["c"], "o": {"late": 0}, "no": None, "tags": []}
    file = table(tmp_path, "a.jsonl", "".join(f"{json.dumps(each)}\n" for each in [*records, late, late]))
    assert AnsweredTable.of(file, "text", "de", "csv").table.names == ("text", "o.n", "o.late")
    warning = " ".join(capsys.readouterr().err.split())
    assert "lists under 'o.l', 'text', 'tags' are left out" in warning
    assert warning.count("warning:") == 1
    for name, content in (("b.jsonl", '{"text": "a", "n": null}\n'), ("b.csv", "text,id\na,\n")):
        AnsweredTable.of(table(tmp_path, name, content), "text", "de", "csv")
    assert not capsys.readouterr().err


def test_a_key_that_a_late_record_has_already_is_refused_with_its_line(tmp_path):
    records = [*([{"text": "b"}] * 1000), {"text": "b", "de": None}]
    file = table(tmp_path, "a.jsonl", "".join(f"{json.dumps(each)}\n" for each in records))
    with pytest.raises(DataError, match=r"a\.jsonl:1001 has a column 'de' already"):
        AnsweredTable.of(file, "text", "de", "jsonl")


def test_a_number_of_a_column_is_its_key_in_json_and_is_not_written_over(tmp_path):
    file = table(tmp_path, "a.tsv", "the film\t1\nthe book\t2\n")
    with pytest.raises(DataError, match="has a column '1' already"):
        AnsweredTable.of(file, "0", "1", "jsonl")
    AnsweredTable.of(file, "0", "1", "tsv")
    AnsweredTable.of(file, "0", "2", "jsonl")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--input", "a.txt", "--output", "o.csv"), "--column NAME"),
        (
            ("--input", "a.csv", "--column", "text", "--output", "o.csv", "--n-best", "2"),
            "--json and --n-best;",
        ),
        (("--input", "a.txt", "--output", "o.jsonl"), "or --json, which writes"),
        (("--input", "a.csv", "--column", "text", "--into", "de"), "--output FILE.csv"),
        (("--column", "text"), "through a pipe"),
    ],
)
def test_lines_are_not_written_into_a_file_that_is_called_a_table(capsys, arguments, hint):
    assert run(["translate", *arguments]) == 2
    assert hint in capsys.readouterr().err


def test_translate_reads_a_column_and_writes_a_line_for_each_record(tmp_path, capsysbinary):
    file = table(tmp_path, "a.csv", "id,text\n1,Good morning.\n2,Thank you.\n")
    out = tmp_path / "out.txt"
    command = ["translate", "--input", str(file), "--column", "text", "--threads", "1"]
    assert run(command) == run([*command, "--output", str(out)]) == 0
    printed = capsysbinary.readouterr().out
    assert printed.count(b"\n") == 2
    assert out.read_bytes() == printed
    assert run(["translate", "--input", str(file)]) == 2


NEW_ROWS = 'text;who\n"a good; film";u1\n;\nbad;u2\n'


@pytest.mark.parametrize(
    ("verb", "head", "labels", "names"),
    [
        ("classify", "classification", ("no", "yes"), ["label", "label_probability"]),
        ("classify", "regression", (), ["value"]),
        ("tag", "tokens", ("A", "B"), ["words", "words_labels"]),
        ("embed", "classification", ("no", "yes"), ["vector"]),
    ],
)
def test_answers_of_encoders_are_in_the_rows_of_their_texts(
    tmp_path, encoder_folder, capsys, verb, head, labels, names
):
    model = str(encoder_folder(head, labels))
    command = [verb, "--model", model, "--input", str(table(tmp_path, "a.csv", NEW_ROWS)), "--column", "text"]
    for into in ((), ("--into", "x")):
        assert run([*command, "--output", str(tmp_path / "o.csv"), *into]) == 0
        assert run([*command, "--output", str(tmp_path / "o.jsonl"), *into]) == 0
        rows = list(csv.reader((tmp_path / "o.csv").read_text().splitlines(), delimiter=";"))
        records = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
        added = [name.replace(names[0], "x", 1) for name in names] if into else names
        assert rows[0] == ["text", "who", *added]
        assert [row[:2] for row in rows[1:]] == [["a good; film", "u1"], ["", ""], ["bad", "u2"]]
        assert [list(record) for record in records] == [rows[0]] * 3
        written = [[record[name] for name in added] for record in records]
        cells = [[each if isinstance(each, str) else json.dumps(each) for each in row] for row in written]
        assert [row[2:] for row in rows[1:]] == [[cell.replace("null", "") for cell in row] for row in cells]
    if verb == "classify":
        assert rows[2][2:] == [""] * len(names)
        [expected] = Classifier(model)(["a good; film"])
        assert written[0] == cells_of(expected)
    assert run([*command, "--output", str(tmp_path / "o.csv"), "--json"]) == 2
    assert run([*command, "--output", str(tmp_path / "o.txt")]) == 2
    hints = " ".join(capsys.readouterr().err.split())
    assert "--output FILE.csv" in hints
    assert ("--top" in hints) == (verb == "classify")
    assert "--n-best" not in hints
