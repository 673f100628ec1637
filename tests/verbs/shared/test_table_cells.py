"""Texts of a table's columns; records that have none are named."""

import json

import pytest

from regard.errors import DataError
from regard.verbs.shared.lines import texts_of
from regard.verbs.shared.table_cells import pairs_of


def test_records_without_a_text_are_counted_and_the_first_are_named(tmp_path, capsys):
    records = [{"en": "Hello."}, {"de": "x"}, {"en": None}, {"en": 5}, *([{}] * 9)]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    assert list(texts_of(tmp_path / "a.jsonl", "en")) == ["Hello.", "", "", "5", *[""] * 9]
    [warning] = capsys.readouterr().err.splitlines()
    assert "11 records have no text under 'en'" in warning
    assert warning.endswith("line 2, 3, 5, 6, 7, ...")


def test_pairs_are_two_columns_that_are_named_or_detected(tmp_path):
    (tmp_path / "a.csv").write_text("id,de,en\n1,eins,one\n2,zwei,two\n3,drei,three\n")
    assert pairs_of(tmp_path / "a.csv", ("en", "de"))[0] == ["one", "two", "three"]
    with pytest.raises(DataError, match="1 column of pairs"):
        pairs_of(tmp_path / "a.csv", ("en",))
    (tmp_path / "one.tsv").write_text("one\teins\n")
    assert pairs_of(tmp_path / "one.tsv") == (["one"], ["eins"])
    (tmp_path / "two.csv").write_text("target,source\neins,one\n")
    assert pairs_of(tmp_path / "two.csv") == (["one"], ["eins"])
    for header in ("completion,prompt", "answer,Question", "de,source"):
        (tmp_path / "two.csv").write_text(f"{header}\neins,one\n")
        assert pairs_of(tmp_path / "two.csv") == (["one"], ["eins"])
    (tmp_path / "lines").write_text("one\n")
    with pytest.raises(DataError, match="no table of pairs"):
        pairs_of(tmp_path / "lines")


def test_completions_are_found_by_their_usual_names(tmp_path):
    (tmp_path / "a.csv").write_text("id,Response,prompt\n1, be,To\n2, is,that\n")
    assert pairs_of(tmp_path / "a.csv", completions=True) == (["To", "that"], [" be", " is"])
    (tmp_path / "b.csv").write_text("instruction,input,output\na,b,c\n")
    with pytest.raises(DataError, match="columns of prompts and completions: instruction, input") as refused:
        pairs_of(tmp_path / "b.csv", completions=True)
    assert "PROMPT,COMPLETION" in refused.value.hint
