"""Reading corpora: every kind of bad line has a policy, and nothing is lost silently."""

import codecs
import gzip
import json
import os
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from regard.data import corpus as corpus_file
from regard.data.corpus import Corpus, CorpusSettings, LinePolicy, locate, open_corpus, read_lines
from regard.data.documents import read_text
from regard.errors import DataError, RecipeError

STRICT = LinePolicy(empty="error", too_long="error", control="error", malformed="error", unequal="error")
LENIENT = LinePolicy(empty="skip", too_long="skip", control="skip", malformed="skip", unequal="skip")
DATA = Path(os.environ.get("REGARD_DATA", "/nowhere"))


def two_files(folder: Path, source: bytes, target: bytes, policy: LinePolicy = LENIENT) -> Corpus:
    (folder / "text.src").write_bytes(source)
    (folder / "text.tgt").write_bytes(target)
    return open_corpus(CorpusSettings(source="text.src", target="text.tgt"), policy, folder)


def one_file(folder: Path, content: str, policy: LinePolicy = LENIENT, **choices: str) -> Corpus:
    (folder / "text").write_text(content, "utf-8", newline="\n")
    return open_corpus(CorpusSettings(file="text", **choices), policy, folder)


def found(corpus: Corpus) -> list[tuple[int, str, str]]:
    return [(pair.line, pair.source, pair.target) for pair in corpus]


def message(corpus: Corpus) -> str:
    with pytest.raises(DataError) as caught:
        list(corpus)
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value.message


# Lines


def test_a_line_ends_at_a_line_feed_and_nowhere_else(tmp_path):
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    (tmp_path / "text").write_bytes((text + "\nsecond\n").encode())
    assert list(read_lines(tmp_path / "text")) == [text, "second"]


def test_a_byte_order_mark_is_dropped_at_the_start_and_kept_elsewhere(tmp_path):
    bom = codecs.BOM_UTF8
    (tmp_path / "text").write_bytes(bom + b"a\n" + bom + b"b\n")
    assert list(read_lines(tmp_path / "text")) == ["a", "\ufeffb"]


def test_the_ends_of_windows_lines_are_dropped(tmp_path):
    (tmp_path / "text").write_bytes(b"a\r\nb\rc\r\nd")
    assert list(read_lines(tmp_path / "text")) == ["a", "b\rc", "d"]


def test_a_last_line_needs_no_line_feed(tmp_path):
    for ending in (b"", b"\n"):
        (tmp_path / "text").write_bytes(b"a\n\nb" + ending)
        assert list(read_lines(tmp_path / "text")) == ["a", "", "b"]


def test_a_gzipped_file_is_known_by_its_bytes_not_its_name(tmp_path):
    for name in ("text", "text.gz"):
        (tmp_path / name).write_bytes(gzip.compress("ä\nb\n".encode()))
        assert list(read_lines(tmp_path / name)) == ["ä", "b"]
    (tmp_path / "text.gz").write_bytes(b"not compressed\n")
    assert list(read_lines(tmp_path / "text.gz")) == ["not compressed"]


def test_a_wrong_byte_is_named_by_file_line_and_place(tmp_path):
    (tmp_path / "text").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(DataError, match=r"text:2: not UTF-8 \(byte 0xef at byte 3\)") as caught:
        list(read_lines(tmp_path / "text"))
    assert "iconv" in caught.value.hint


WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32"]


@pytest.mark.parametrize("encoding", WIDE)
def test_utf_16_is_reported_as_utf_16(tmp_path, encoding):
    (tmp_path / "a").write_bytes("ein Haus\nzwei Häuser\n".encode(encoding))
    for read in (lambda: list(read_lines(tmp_path / "a")), lambda: read_text(tmp_path / "a")):
        with pytest.raises(DataError, match=r"a:? ?(UTF-16|UTF-16LE|UTF-16BE|UTF-32), not UTF-8") as caught:
            read()
        assert caught.value.hint.startswith("convert the file: iconv -f UTF-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_corpus_and_nobody_waits_for_it(tmp_path):
    """A pipe can be read once, but a corpus is read for its digest, its tokenisers and its tokens."""
    os.mkfifo(tmp_path / "text.src")
    (tmp_path / "text.tgt").write_text("a\n")
    with pytest.raises(DataError, match=r"text\.src is a pipe or a device, but data are read more than once"):
        open_corpus(CorpusSettings(source="text.src", target="text.tgt"), LENIENT, tmp_path)
    assert locate("text.src", tmp_path, once=True) == tmp_path / "text.src"


@pytest.mark.parametrize("damage", ["cut", "cut in its header", "changed"])
def test_a_damaged_gzip_file_is_an_error_and_not_an_end(tmp_path, damage):
    whole = gzip.compress(b"".join(b"line %d\n" % n for n in range(5000)))
    broken = {"cut": whole[:-20], "cut in its header": whole[:5], "changed": whole[:-8] + b"\0" * 8}[damage]
    (tmp_path / "text.gz").write_bytes(broken)
    with pytest.raises(DataError, match=r"text.gz:\d+: the compressed file is cut short or damaged"):
        list(read_lines(tmp_path / "text.gz"))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_file, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"a" * (64 << 20)))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"text\.gz:1: a line of more than 1 MiB"):
        list(read_lines(tmp_path / "text.gz"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_missing_file_is_answered_with_the_nearest_name(tmp_path):
    (tmp_path / "train.en").write_text("a\n")
    with pytest.raises(DataError, match="no such file") as caught:
        open_corpus(CorpusSettings(source="trian.en", target="train.de"), STRICT, tmp_path)
    assert caught.value.hint == "did you mean 'train.en'?"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match="Is a directory"):
        list(read_lines(tmp_path))


# Policies


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


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


# Formats


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


def test_a_synthetic_task_is_a_corpus():
    choices = CorpusSettings(synthetic="reverse", size=20, length=4)
    corpus = open_corpus(choices, STRICT, Path())
    pairs = found(corpus)
    assert len(pairs) == 20
    assert pairs == found(corpus)
    other = open_corpus(replace(choices, seed=1), STRICT, Path())
    assert corpus.fingerprint() != other.fingerprint()


# Settings and fingerprints


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
