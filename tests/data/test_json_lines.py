"""JSON Lines: a line is a record, or an error that says why it is not."""

import math

import pytest

from regard.data.json_lines import parse_record, text_field


def test_a_line_is_a_record_with_its_values():
    assert parse_record('{"text": "ü", "n": 1, "inner": {"a": [null]}}\r') == {
        "text": "ü",
        "n": 1,
        "inner": {"a": [None]},
    }


def test_numbers_that_json_does_not_have_are_read_as_floats():
    assert math.isnan(parse_record('{"text": "a", "score": NaN}')["score"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON"),
        ('{"text": "a"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"text": "a", "text": "b"}', "^the key 'text' occurs twice"),
        ('["a"]', "a JSON list, not an object"),
        ('"a"', "a JSON str, not an object"),
    ],
)
def test_another_line_is_refused_in_one_line(line, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse_record(line)
    assert "\n" not in str(caught.value)


def test_a_text_is_there_and_is_text():
    record = {"text": "", "n": 1}
    assert text_field(record, "text") == ""
    with pytest.raises(ValueError, match="'n' is not text"):
        text_field(record, "n")
    with pytest.raises(ValueError, match="'label' is missing"):
        text_field(record, "label")


def test_a_text_within_an_object_is_named_by_both_keys():
    record = {"translation": {"en": "a", "x": {"y": "b"}}, "a.b": "c", "n": 1}
    assert [text_field(record, key) for key in ("translation.en", "translation.x.y", "a.b")] == [
        "a",
        "b",
        "c",
    ]
    for key in ("translation.de", "n.en", "translation.en.x", "b.c"):
        with pytest.raises(ValueError, match=f"'{key}' is missing"):
            text_field(record, key)
    with pytest.raises(ValueError, match="'translation' is not text"):
        text_field(record, "translation")
