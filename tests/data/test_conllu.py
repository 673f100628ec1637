"""CoNLL-U: words are recognised, files are written back exactly, and errors have their line numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.conllu import COLUMNS, labels_of, read_sentences
from regard.errors import DataError


def row(number, form="x", upos="NOUN", feats="_"):
    return f"{number}\t{form}\t_\t{upos}\t_\t{feats}\t_\t_\t_\tSpaceAfter=No"


RICH = "\n".join(
    [
        "# sent_id = 1",
        "#text = vámonos al mar",
        row("0.1", "nada", "PRON"),
        row("1-2", "vámonos", "_"),
        row(1, "vamos", "VERB"),
        row(2, "nos", "PRON"),
        row("2.1", "ya", "ADV"),
        row("2.2", "ya", "ADV"),
        row("3-4", "al", "_"),
        row(3, "a", "ADP"),
        row(4, "el", "DET"),
        row(5, "mar a mar"),
        "",
        row(1, "Sí", "INTJ"),
        "",
        "",
    ]
)


def sentences(text):
    assert text.endswith("\n")
    return list(read_sentences(text.split("\n")[:-1], "file.conllu"))


def test_ranges_and_empty_nodes_are_no_words():
    first, second = sentences(RICH)
    assert first.forms == ("vamos", "nos", "a", "el", "mar a mar")
    assert first.column("upos") == ("VERB", "PRON", "ADP", "DET", "NOUN")
    assert (len(first), len(second)) == (5, 1)
    assert (first.first_line, second.first_line) == (1, 14)


def test_what_was_read_is_written_back():
    assert "".join(map(str, sentences(RICH))) == RICH


def test_one_column_of_words_changes_and_nothing_else():
    [first, _] = sentences(RICH)
    changed = str(first.with_column("upos", ["A", "B", "C", "D", "E"]))
    assert sentences(changed)[0].column("upos") == ("A", "B", "C", "D", "E")
    before, after = (text.split("\n") for text in (str(first), changed))
    for old, new in zip(before, after, strict=True):
        old_cells, new_cells = old.split("\t"), new.split("\t")
        assert old_cells[:3] + old_cells[4:] == new_cells[:3] + new_cells[4:]
    assert [old == new for old, new in zip(before, after, strict=True)] == [
        *[True] * 4,
        *[False] * 2,
        *[True] * 3,
        *[False] * 3,
        True,
        True,
    ]


cells = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=4)


@given(st.lists(st.lists(cells, min_size=9, max_size=9), min_size=1, max_size=4))
def test_any_columns_come_back_unchanged(table):
    text = (
        "".join("\t".join([str(number), *line]) + "\n" for number, line in enumerate(table, start=1)) + "\n"
    )
    [sentence] = sentences(text)
    assert str(sentence) == text
    assert sentence.column("misc") == tuple(line[-1] for line in table)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([row(1)], ":1: the last sentence is not ended by an empty line"),
        ([row(1), "", ""], ":3: a sentence without a word"),
        (["# text = nothing", ""], ":2: a sentence without a word"),
        ([row("1-2"), ""], ":2: a sentence without a word"),
        ([row(1), row("2-3"), row(2), ""], ":4: a range ends at word 3"),
        ([row(1), "# late", ""], ":2: a comment between words"),
        ([row(1), " ", ""], ":2: white space where an empty line is expected"),
        ([row(1), "2\tx\t_", ""], ":2: 3 columns separated by tabs, not 10"),
        ([row(1), row(2) + "\tmore", ""], ":2: 11 columns"),
        ([row(2), ""], ":1: word 2 where word 1 is expected"),
        ([row(1), row(1), ""], ":2: word 1 where word 2 is expected"),
        ([row(1), row("1-2"), row(2), ""], ":2: the range 1-2"),
        ([row("2-1"), row(1), ""], ":1: the range 2-1"),
        ([row("1-3"), row(1), row("2-3"), row(2), row(3), ""], ":3: the range 2-3"),
        ([row(1), row("1.2"), ""], ":2: empty node 1.2 where 1.1 is expected"),
        ([row(1), row("2.1"), ""], ":2: empty node 2.1"),
        ([row("1a"), ""], ":1: the ID '1a'"),
        ([row("01"), ""], ":1: the ID '01'"),
        ([row(1, form=""), ""], ":1: the column FORM is empty"),
    ],
)
def test_a_breach_of_the_format_is_named(lines, place):
    with pytest.raises(DataError, match="file.conllu" + place) as caught:
        list(read_sentences(lines, "file.conllu"))
    assert caught.value.hint


def test_sentences_before_a_breach_come_out_first():
    stream = read_sentences([row(1), "", row(3), ""], "pipe")
    assert len(next(stream)) == 1
    with pytest.raises(DataError, match="pipe:3"):
        next(stream)


def test_a_word_without_a_label_is_named_but_none_is_a_feature_set():
    [sentence] = sentences("\n".join(["# one", row(1), row("2-3"), row(2, upos="_"), row(3), "", ""]))
    with pytest.raises(DataError, match=r"file\.conllu:4: a word without UPOS"):
        labels_of(sentence, "upos", "file.conllu")
    assert labels_of(sentence, "feats", "file.conllu") == ("_", "_", "_")


def test_there_are_ten_columns():
    assert len(COLUMNS) == 10
