"""Tables: format, header and delimiter are detected; errors have their line numbers."""

import gzip
import json

import pytest

from regard.data.tables import format_of, open_table
from regard.errors import DataError

ROWS = [(f"text {i}, and more", "yes" if i % 2 else "no") for i in range(30)]


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def cells(table):
    return [record.cells for record in table.records()]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [True, False])
def test_a_csv_file_gives_its_cells_whatever_its_delimiter(tmp_path, delimiter, header):
    rows = [f'"{text}"{delimiter}{label}' for text, label in ROWS]
    table = open_table(write(tmp_path / "t.csv", [*[f"comment{delimiter}verdict"] * header, *rows]), "csv")
    assert table.names == (("comment", "verdict") if header else ("0", "1"))
    assert cells(table) == ROWS
    assert next(table.records()).line == 1 + header


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_first_line_that_declares_the_delimiter_is_no_record(delimiter, tmp_path):
    rows = [f"{number}, and; more|{delimiter}x" for number in range(9)] if delimiter == "\t" else []
    rows = rows or [f"text {number}{delimiter}x" for number in range(9)]
    table = open_table(write(tmp_path / "t.csv", [f"sep={delimiter}", f"text{delimiter}label", *rows]), "csv")
    assert table.names == ("text", "label")
    assert [record.cells for record in table.records()] == [tuple(row.split(delimiter)) for row in rows]
    assert next(table.records()).line == 3


def test_a_quoted_cell_holds_delimiters_quotes_and_lines_and_lines_are_counted(tmp_path):
    table = open_table(
        write(tmp_path / "t.csv", ["text,label", '"one, ""two""', 'three",yes', "four,no"]), "csv"
    )
    assert [record[:2] for record in table.records()] == [
        (2, ('one, "two"\nthree', "yes")),
        (4, ("four", "no")),
    ]
    broken = write(tmp_path / "b.csv", ["text,label", '"never closed,yes', *["more,no"] * 30_000])
    with pytest.raises(DataError, match=r"b\.csv:2"):
        list(open_table(broken, "csv").records())


def test_json_lines_give_a_column_for_each_key_inner_ones_too(tmp_path):
    lines = [json.dumps({"translation": {"en": "a", "de": "b"}, "n": 1, "list": [1]}), '{"n": true}', ""]
    path = write(tmp_path / "t", lines)
    assert format_of(path) == "jsonl"
    table = open_table(path, "jsonl")
    assert table.names == ("translation.en", "translation.de", "n")
    assert table.columns(["de", "n"]) == (1, 2)
    assert cells(table) == [("a", "b", "1"), (None, None, "true")]
    with pytest.raises(DataError, match=r"t\.json:1: a JSON list, not an object") as caught:
        open_table(write(tmp_path / "t.json", ["[1]"]), "jsonl")
    assert "one JSON object per line" in caught.value.hint


@pytest.mark.parametrize(
    ("first", "named"),
    [("Hi.\tHallo.", False), ("en\tde", True), ("English\tGerman", True), ("source\ttarget", True)],
)
def test_a_header_is_distinguished_from_a_first_pair(tmp_path, first, named):
    path = write(tmp_path / "t.tsv", [first, *(f"sentence {i}\tSatz {i}" for i in range(30))])
    table = open_table(path, "tsv")
    assert table.named == named
    assert len(cells(table)) == 31 - named


@pytest.mark.parametrize(
    ("name", "lines", "kind"),
    [
        ("t.tsv.gz", ["a\tb"], "tsv"),
        ("t.txt", ["a\tb", "c\td"], "tsv"),
        ("t.txt", ["1 a text", "0 another"], "labelled"),
        ("t.txt", ["__label__x a text", "__label__y another"], "labelled"),
        ("t.txt", ["1 a text", "another"], None),
        ("t", ["some text", "with\ta tab"], None),
    ],
)
def test_the_format_is_recognised_by_the_name_or_the_lines(tmp_path, name, lines, kind):
    path = write(tmp_path / name, lines)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert format_of(path) == kind


def test_labels_before_texts_are_the_second_column(tmp_path):
    table = open_table(write(tmp_path / "t", ["__label__x a  text", "-1 another"]), "labelled")
    assert cells(table) == [("a  text", "x"), ("another", "-1")]


def test_a_line_of_another_width_is_named(tmp_path):
    table = open_table(write(tmp_path / "t.tsv", ["a\tb", "c\td\te"]), "tsv")
    with pytest.raises(DataError, match=r"t\.tsv:2: 3 columns, but line 1 has 2"):
        list(table.records())
    with pytest.raises(DataError, match=r"o\.tsv:1: no tab"):
        open_table(write(tmp_path / "o.tsv", ["one column"]), "tsv")


def test_columns_of_one_name_are_chosen_by_number(tmp_path):
    table = open_table(write(tmp_path / "t.csv", ["text,label,label", *("a,b,c" for _ in range(20))]), "csv")
    with pytest.raises(DataError, match="2 columns have the name 'label'") as caught:
        table.columns(["label"])
    assert caught.value.hint == "choose by number: 1 and 2"
    assert table.columns(["text", "2"]) == (0, 2)


@pytest.mark.parametrize(("name", "gap"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_record_of_empty_cells_is_one_only_where_each_record_has_an_answer(tmp_path, name, gap):
    (tmp_path / name).write_text(f"{gap}\ntext{gap}n\na{gap}1\n{gap}\nb{gap}2\n")
    table = open_table(tmp_path / name, format_of(tmp_path / name))
    assert table.names == ("text", "n")
    assert [record.line for record in table.records()] == [3, 5]
    assert [record.cells for record in table.records(empty=True)] == [("a", "1"), ("", ""), ("b", "2")]


def test_quotes_around_all_texts_of_a_tsv_file_are_named_and_their_lines_too(tmp_path):
    for lines, error in (
        (['"text"\t"n"', '"one"\t1', '"two ""2"""\t2'], "all texts are in quotes"),
        (["text\tn", '"one', 'line"\t1'], "2: 1 column, but line 1 has 2"),
    ):
        with pytest.raises(DataError, match=error) as raised:
            list(open_table(write(tmp_path / "a.tsv", lines), "tsv").records())
        assert "read as CSV" in raised.value.hint
        table = open_table(write(tmp_path / "a.csv", lines), "csv")
        assert table.names == ("text", "n")
        assert [row[1] for row in cells(table)] == ["1", "2"][: len(cells(table))]
    said = write(tmp_path / "b.tsv", ['"Hi," he said.\t"Hallo"', '"Bye."\t"Ade."'])
    assert open_table(said, "tsv").names == ("0", "1")


def test_lists_of_words_are_named(tmp_path):
    file = write(tmp_path / "a.jsonl", ['{"tokens": ["a", "b"], "ner_tags": ["O", "O"]}'])
    with pytest.raises(DataError, match="under 'tokens', 'ner_tags' are lists: words") as raised:
        open_table(file, "jsonl")
    assert "a tab and its label on each line" in raised.value.hint
