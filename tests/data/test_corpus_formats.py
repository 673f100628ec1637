"""File formats of parallel corpora: the pairs of each, and the rows that are not pairs."""

import json

import jaxtyping
import pytest

from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.corpus_formats import FORMATS, register_corpus_format
from regard.errors import DataError, UserError
from tests.data.corpora import STRICT, found, message, one_file


def test_columns_of_a_tsv_file_are_counted_from_zero(tmp_path):
    content = "id1\tHallo\tHello\nid2\tnur\n"
    choices = {"format": "tsv", "source_field": "2", "target_field": "1"}
    corpus = one_file(tmp_path, content, **choices)
    assert found(corpus) == [(1, "Hello", "Hallo")]
    assert corpus.skipped == {"malformed": 1}
    assert "text:2: 2 columns, so there is no column 2" in message(
        one_file(tmp_path, content, STRICT, **choices)
    )
    assert found(one_file(tmp_path, "a\tb\n", format="tsv")) == [(1, "a", "b")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "a JSON list, not an object"),
        ('{"source": "a"}', "'target' is missing"),
        ('{"source": "a", "target": NaN}', "'target' is not text"),
    ],
)
def test_a_json_line_that_is_no_pair_is_named(tmp_path, line, why):
    assert f"text:1: {why}" in message(one_file(tmp_path, line + "\n", STRICT, format="jsonl"))


def test_json_lines_give_text_without_surrogates_or_line_feeds(tmp_path):
    records = [
        {"source": "a\ud800", "target": "b"},
        {"source": "a\nb", "target": "b"},
        {"source": "\U0001f600", "target": "ä"},
    ]
    content = "".join(json.dumps(record) + "\n" for record in records)
    corpus = one_file(tmp_path, content, format="jsonl")
    assert found(corpus) == [(3, "\U0001f600", "ä")]
    assert corpus.skipped == {"control": 2}
    named = one_file(
        tmp_path, '{"en": "a", "de": "b"}\n', format="jsonl", source_field="en", target_field="de"
    )
    assert found(named) == [(1, "a", "b")]


def test_scan_and_cmudict_are_read(tmp_path):
    scan = one_file(tmp_path, "IN: jump twice OUT: I_JUMP I_JUMP\nOUT\n", format="scan")
    assert found(scan) == [(1, "jump twice", "I_JUMP I_JUMP")]
    assert scan.skipped == {"malformed": 1}
    lines = "aalto AA1 L T OW2 # name, finnish\nabbe(2) AE0 B EY1\n'm AH0 M\nnothing\n"
    cmudict = one_file(tmp_path, lines, format="cmudict")
    assert found(cmudict) == [(1, "aalto", "AA1 L T OW2"), (2, "abbe", "AE0 B EY1"), (3, "'m", "AH0 M")]
    assert cmudict.skipped == {"malformed": 1}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "b"), ("a", "b", "c")], "pair 2 of the corpus format 'odd' is .*, not two texts"),
        ([("a", 2)], "pair 1 of the corpus format 'odd' is .*, not two texts"),
        (["ab"], "pair 1 of the corpus format 'odd' is 'ab', not two texts"),
        ([("a", "b\n")], "pair 1 of the corpus format 'odd' has a text with its line end"),
        (None, "the corpus format 'odd' gives NoneType, not pairs"),
    ],
)
def test_a_registered_format_must_give_pairs_of_texts(tmp_path, monkeypatch, rows, message):
    monkeypatch.setattr(FORMATS, "added", dict(FORMATS.added))
    register_corpus_format("odd")(lambda path: rows)
    (tmp_path / "corpus.odd").write_text("a")
    corpus = open_corpus(CorpusSettings(file="corpus.odd", format="odd"), LinePolicy(), tmp_path)
    with pytest.raises(DataError, match=message):
        list(corpus)


def test_a_format_that_cannot_be_called_is_not_registered(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse it first
    with pytest.raises(UserError, match="the corpus format 'three' is int"):
        register_corpus_format("three")(3)


def test_what_a_format_raises_is_named_with_the_file(tmp_path):
    @register_corpus_format("crash")
    def crash(path):
        yield "a", "b"
        raise KeyError("boom")

    with pytest.raises(DataError, match=r"text: the corpus format 'crash' fails: KeyError: 'boom'") as raised:
        list(one_file(tmp_path, "a", format="crash"))
    assert f"{__file__}:" in raised.value.message


def test_a_format_that_gives_an_error_of_the_system_keeps_it(tmp_path):
    register_corpus_format("absent")(lambda path: [path.with_name("no such file").read_text()])
    with pytest.raises(FileNotFoundError):
        list(one_file(tmp_path, "a", format="absent"))
