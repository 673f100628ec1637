"""Running text becomes documents unchanged; unreadable text is an error with its line."""

import gzip
import itertools
import json

import pytest

from regard.data.documents import Documents, DocumentSettings, read_text
from regard.errors import DataError, RecipeError

TEXT = "One.\nTwo.\n\n  \nThree\u2028still three.\n"


@pytest.fixture
def written(tmp_path):
    """Documents of files with these contents."""

    def documents(*contents: str | bytes, **choices: object) -> Documents:
        names = tuple(f"{number}.txt" for number in range(len(contents)))
        for name, content in zip(names, contents, strict=True):
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        settings = DocumentSettings(file=names if len(names) > 1 else names[0], **choices)
        return Documents(settings, tmp_path)

    return documents


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("file", [TEXT]),
        ("paragraph", ["One.\nTwo.", "Three\u2028still three."]),
        ("line", ["One.", "Two.", "Three\u2028still three."]),
    ],
)
def test_a_document_is_what_the_recipe_sets(written, document, expected):
    documents = written(TEXT, document=document)
    assert list(documents) == expected
    assert list(documents) == expected, "they can be read again"
    assert list(written("\ufeff" + TEXT.replace("\n", "\r\n"), document=document)) == expected
    assert list(written(gzip.compress(TEXT.encode()), document=document)) == expected
    assert list(written(TEXT, " \n\n", "more", document=document)) == [*expected, "more"]


def test_a_record_is_a_field_of_a_line_of_json(written):
    lines = [json.dumps({"body": "one\n\ntwo", "other": 1}), json.dumps({"body": " "}), '{"body": "\\u00e9"}']
    assert list(written("\n".join(lines), document="record", field="body")) == ["one\n\ntwo", "é"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Expecting"),
        ("[1]", "a JSON list, not an object"),
        ("{}", "'text' is missing"),
        ('{"text": 3}', "'text' is not text"),
        ('{"text": "\\ud800"}', "a lone surrogate"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_a_record_that_holds_no_text_is_named(written, line, why):
    documents = written('{"text": "fine"}\n' + line, document="record")
    with pytest.raises(DataError, match=rf"0\.txt:2: .*{why}") as caught:
        list(documents)
    assert caught.value.hint


def test_shares_of_one_text_are_those_of_its_characters(written):
    """As nanoGPT cuts Tiny Shakespeare: data[: int(n * 0.9)] and the rest."""
    text = "".join(chr(97 + number % 26) for number in range(1115))
    train, valid = written(text, share=(0.0, 0.9)), written(text, share=(0.9, 1.0))
    assert [*train, *valid] == [text[:1003], text[1003:]]


def test_shares_of_several_documents_are_those_of_their_number(written):
    lines = [f"line {number}" for number in range(25)]
    parts = [
        list(written("\n".join(lines), document="line", share=share))
        for share in ((0.0, 0.3), (0.3, 0.96), (0.96, 1.0))
    ]
    assert [len(part) for part in parts] == [7, 17, 1]
    assert [*itertools.chain.from_iterable(parts)] == lines


def test_what_stands_around_a_book_can_be_left_out(written):
    book = "Licence\n*** START of it ***\nOnce.\nSTART\n*** END of it ***\nLicence\n"
    choices = {"after": "*** START", "before": "*** END"}
    assert list(written(book, **choices)) == ["Once.\nSTART\n"]
    assert list(written(book, document="line", **choices)) == ["Once.", "START"]
    for name, missing in (("after", "*** BEGIN"), ("before", "*** FINIS")):
        with pytest.raises(DataError, match="no line begins with") as caught:
            list(written(book, **{**choices, name: missing}))
        assert name in caught.value.hint


@pytest.mark.parametrize("document", ["file", "line"])
def test_what_is_not_utf8_is_named_with_its_line(written, document):
    with pytest.raises(DataError, match=r"0\.txt:2: not UTF-8 \(byte 0xff at byte 3\)"):
        list(written(b"fine\nun\xff\n", document=document))
    with pytest.raises(DataError, match="cut short or damaged"):
        list(written(gzip.compress(TEXT.encode() * 99)[:-9], document=document))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match="Is a directory"):
        read_text(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        Documents(DocumentSettings(file="none.txt"), tmp_path)


def test_a_fingerprint_depends_on_texts_and_settings_and_not_on_paths(written, tmp_path):
    first = written(TEXT).fingerprint()
    (tmp_path / "moved.txt").write_text(TEXT)
    assert Documents(DocumentSettings(file="moved.txt"), tmp_path).fingerprint() == first
    others = [written(TEXT, document="line"), written(TEXT, share=(0.0, 0.5)), written(TEXT + "!")]
    assert len({first, *(each.fingerprint() for each in others)}) == 4


@pytest.mark.parametrize(
    "choices",
    [
        {"share": (0.5, 0.5)},
        {"share": (0.0, 1.1)},
        {"share": (0.1,)},
        {"share": (float("nan"), 1.0)},
        {"file": ()},
        {"document": "record", "after": "x"},
    ],
)
def test_settings_that_cannot_work_are_refused(choices):
    with pytest.raises(RecipeError) as caught:
        DocumentSettings(**{"file": "a.txt", **choices})
    assert caught.value.hint


def test_shares_of_one_file_may_overlap_or_not():
    def part(file, *share: float) -> DocumentSettings:
        return DocumentSettings(file=file, share=share)

    assert part("a", 0.0, 0.9).overlaps(part(("b", "a"), 0.8, 1.0))
    assert not part("a", 0.0, 0.9).overlaps(part("a", 0.9, 1.0))
    assert not part("a", 0.0, 0.9).overlaps(part("b", 0.0, 0.9))


def test_a_field_is_of_records_only():
    with pytest.raises(RecipeError, match="field = 'body' has no effect"):
        DocumentSettings(file="a.txt", document="line", field="body").refuse_unused()
    DocumentSettings(file="a.jsonl", document="record", field="body").refuse_unused()
