"""Words and labels in columns are read as the equivalent CoNLL-U sentences."""

import pytest

from regard.data.word_columns import read_words, word_format
from regard.errors import DataError


def write(path, text):
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("between", ["\t", " "])
def test_columns_give_words_and_the_last_column(tmp_path, between):
    rows = ["-DOCSTART- X O", "", "The DT O", "EU NNP ORG", "", "", "It PRP O", "rained VBD O"] * 3
    path = write(tmp_path / "a.txt", "\n".join(rows).replace(" ", between))
    assert word_format(path) == "columns"
    first, second, *_ = read_words(path, "columns")
    assert (first.forms, first.column("xpos"), first.first_line) == (("The", "EU"), ("O", "ORG"), 3)
    assert (second.forms, second.first_line) == (("It", "rained"), 7)
    assert len(list(read_words(path, "columns"))) == 6


def test_what_is_written_as_conllu_is_read_back(tmp_path):
    path = write(tmp_path / "a.conll", "Go VB\n. PUNCT\n\nStop VB\n")
    sentences = list(read_words(path, word_format(path)))
    other = write(tmp_path / "b", "".join(map(str, sentences)))
    assert word_format(other) == "conllu"
    assert [each.forms for each in read_words(other, "conllu")] == [("Go", "."), ("Stop",)]


@pytest.mark.parametrize(
    "text",
    [
        "Two words\n\nand more\n\n",
        "a\tb\nc\td\n",
        "A whole line of text.\n\nAnother.\n",
        "text,label\na,b\n\n",
    ],
)
def test_other_text_is_not_taken_for_words_in_columns(tmp_path, text):
    assert word_format(write(tmp_path / "a.txt", text)) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a X\nb\n", r"a\.conll:2: 1 column, but the first word has 2"),
        ("a\n", r"a\.conll:1: a word without a label"),
        ("a X\n\nb _\n", r"a\.conll:3: '_' is not a label"),
    ],
)
def test_a_line_that_breaks_the_format_is_named(tmp_path, text, what):
    with pytest.raises(DataError, match=what):
        list(read_words(write(tmp_path / "a.conll", text), "columns"))
