"""Reading corpora: every kind of bad line has a policy, and nothing is lost silently."""

import codecs
import gzip
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from regard.data.corpus import CorpusSettings, LinePolicy, open_corpus
from regard.data.documents import DocumentSettings
from regard.errors import RecipeError
from tests.data.corpora import LENIENT, STRICT, found, message, two_files

DATA = Path(os.environ.get("REGARD_DATA", "/nowhere"))


def test_files_may_be_given_as_paths(tmp_path, monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    assert CorpusSettings(source=tmp_path / "a", target=tmp_path / "b").source == str(tmp_path / "a")
    assert DocumentSettings(file=[tmp_path / "a"]).file == (str(tmp_path / "a"),)


def test_every_oddity_of_a_pair_is_counted_or_named(tmp_path):
    source = "good\n\nlong\n \u00a0\nnul\0\nlast\n".encode()
    target = f"gut\nleer\n{'x' * 51}\nblank\nNull\nende\n".encode()
    policy = replace(LENIENT, max_characters=50)
    corpus = two_files(tmp_path, source, target, policy)
    assert found(corpus) == [(1, "good", "gut"), (6, "last", "ende")]
    assert corpus.skipped == {"empty": 2, "too_long": 1, "control": 1}
    strict = replace(STRICT, max_characters=50)
    assert "text.src:2: the line is empty" in message(two_files(tmp_path, source, target, strict))
    only_long = replace(LENIENT, too_long="error", max_characters=50)
    assert "text.tgt:3: 51 characters, more than 50" in message(
        two_files(tmp_path, source, target, only_long)
    )
    only_control = replace(LENIENT, control="error")
    assert "text.src:5: a NUL" in message(two_files(tmp_path, source, target, only_control))


@pytest.mark.parametrize(("sources", "targets"), [(3, 5), (5, 3), (0, 1), (1, 0)])
def test_unequal_files_are_an_error_with_the_number_of_lines_of_each(tmp_path, sources, targets):
    files = b"a\n" * sources, b"b\n" * targets
    text = message(two_files(tmp_path, *files, LinePolicy()))
    assert f"text.src has {sources} lines, text.tgt has {targets}" in text
    corpus = two_files(tmp_path, *files)
    assert len(found(corpus)) == min(sources, targets)
    assert corpus.skipped == {"unequal": abs(sources - targets)}


def test_a_line_of_a_million_characters_is_left_out_before_anything_reads_it(tmp_path):
    corpus = two_files(tmp_path, b"a\n" + b"x" * 1_000_000 + b"\nb\n", b"a\nx\nb\n", LinePolicy())
    assert [line for line, _, _ in found(corpus)] == [1, 3]
    assert corpus.skipped == {"too_long": 1}


def test_counts_are_of_the_latest_reading(tmp_path):
    corpus = two_files(tmp_path, b"a\n\n", b"a\nb\n")
    assert found(corpus) == found(corpus)
    assert corpus.skipped == {"empty": 1}


def test_the_first_pairs_of_a_corpus_are_a_corpus(tmp_path):
    corpus = two_files(tmp_path, b"a\n\nb\nc\n", b"a\nx\nb\nc\n")
    start = corpus.first(2)
    assert found(start) == found(start) == found(corpus)[:2]
    assert start.fingerprint() != corpus.fingerprint()


oddities = st.sampled_from(
    [
        *(
            "",
            " ",
            "\t",
            "plain words",
            "e\u0301",
            "\ufeff",
            "\r",
            "\r\r",
            "\0",
            "a\0b",
            "\u2028",
            "a\u2028b",
        ),
        *("\x85", "\x0b\x0c", "\u202e", "x" * 40, "x" * 41, "ß" * 40, "\U0001f600" * 41, "\u00a0"),
    ]
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pairs=st.lists(st.tuples(oddities | st.text(max_size=50), oddities), max_size=12),
    ends=st.sampled_from([("\n", "\n"), ("\r\n", "\n"), ("\n", "\r\n")]),
    final=st.tuples(st.booleans(), st.booleans()),
    zipped=st.booleans(),
    bom=st.booleans(),
)
@example(pairs=[("a\0", "")], ends=("\n", "\n"), final=(True, True), zipped=False, bom=False)
def test_every_line_of_any_file_is_read_or_counted(tmp_path, pairs, ends, final, zipped, bom):
    pairs = [(one.replace("\n", " "), other.replace("\n", " ")) for one, other in pairs]
    if not all(final):  # a last line that is empty and has no end is not a line
        pairs.append(("end", "end"))
    contents = []
    for side in range(2):
        text = "".join(pair[side] + ends[side] for pair in pairs)
        content = (text if final[side] else text.removesuffix(ends[side])).encode()
        content = codecs.BOM_UTF8 + content if bom else content
        contents.append(gzip.compress(content, 1) if zipped else content)
    corpus = two_files(tmp_path, *contents, replace(LENIENT, max_characters=40))

    expected, reasons = [], Counter()
    for line, sides in enumerate(pairs, start=1):
        sides = [
            side.removesuffix("\r") if end == "\n" else side for side, end in zip(sides, ends, strict=True)
        ]
        if line == 1 and not bom:
            sides = [side.removeprefix("\ufeff") for side in sides]
        problems = [
            "too_long"
            if len(side) > 40
            else "empty"
            if not side.strip()
            else "control"
            if "\0" in side
            else ""
            for side in sides
        ]
        reason = next(filter(None, problems), None)
        if reason:
            reasons[reason] += 1
        else:
            expected.append((line, *sides))
    assert found(corpus) == expected
    assert corpus.skipped == reasons


def test_a_synthetic_task_is_a_corpus():
    choices = CorpusSettings(synthetic="reverse", size=20, length=4)
    corpus = open_corpus(choices, STRICT, Path())
    pairs = found(corpus)
    assert len(pairs) == 20
    assert pairs == found(corpus)
    other = open_corpus(replace(choices, seed=1), STRICT, Path())
    assert corpus.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"source": "a"},
        {"target": "a"},
        {"source": "a", "target": "b", "synthetic": "dates"},
        {"source": "a", "target": "b", "file": "c", "format": "tsv"},
        {"source": "a", "target": "b", "format": "tsv"},
        {"file": "a"},
        {"file": "a", "format": "tsv", "source_field": "one"},
        {"synthetic": "dates", "size": 0},
    ],
)
def test_settings_that_name_no_corpus_are_refused(choices):
    with pytest.raises(RecipeError) as caught:
        CorpusSettings(**choices)
    assert caught.value.hint


FILES = {"source": "a", "target": "b"}


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        (FILES | {"size": 100}, "size"),
        (FILES | {"seed": 1}, "seed"),
        (FILES | {"split": "valid"}, "split"),
        (FILES | {"source_field": "0"}, "source_field"),
        ({"file": "a", "format": "scan", "target_field": "1"}, "target_field"),
        ({"synthetic": "copy", "source_field": "0"}, "source_field"),
        ({"synthetic": "copy", "languages": ("en",)}, "languages"),
        ({"synthetic": "dates", "length": 4}, "length"),
        ({"synthetic": "numbers", "symbols": 4}, "symbols"),
    ],
)
def test_a_setting_that_the_kind_of_corpus_does_not_have_is_refused(choices, name):
    with pytest.raises(RecipeError, match=f"{name} = ") as caught:
        CorpusSettings(**choices)
    assert caught.value.hint


def test_a_fingerprint_is_of_the_content_and_not_of_the_place(tmp_path):
    corpora = {}
    for name, source in {"one": b"a\n", "two": b"a\n", "three": b"b\n"}.items():
        (tmp_path / name).mkdir()
        corpora[name] = two_files(tmp_path / name, source, b"c\n").fingerprint()
    assert corpora["one"] == corpora["two"] != corpora["three"]
    assert two_files(tmp_path / "one", b"a\n", b"c\n", STRICT).fingerprint() != corpora["one"]


@pytest.mark.skipif(not DATA.is_dir(), reason="needs REGARD_DATA")
@pytest.mark.parametrize(
    ("choices", "pairs"),
    [
        ({"source": "multi30k:train.en.gz", "target": "multi30k:train.de.gz"}, 29_000),
        ({"source": "tatoeba_en_de:valid.en", "target": "tatoeba_en_de:valid.de"}, 3516),
        ({"file": "cmudict:valid.dict", "format": "cmudict"}, 3224),
        ({"file": "scan:simple.test.txt", "format": "scan"}, 4182),
    ],
)
def test_the_data_sets_are_read_whole(choices, pairs):
    assert sum(1 for _ in open_corpus(CorpusSettings(**choices), STRICT, Path())) == pairs


def test_the_first_lines_of_a_corpus_are_another_corpus():
    whole = open_corpus(CorpusSettings(synthetic="reverse", size=9), LinePolicy(), Path())
    assert list(whole.first(4)) == list(whole)[:4]
    assert len({whole.fingerprint(), whole.first(4).fingerprint(), whole.first(5).fingerprint()}) == 3
