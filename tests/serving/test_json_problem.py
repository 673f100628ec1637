"""A body that is not JSON: the problem is named, with its place, and nothing of the text is repeated."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.serving.json_problem import json_problem

PROBLEMS = {
    b"": "the body is empty",
    b" \n": "the body is empty",
    b'{"text":"Hi \\ud83d you."}': r"\ud83d in line 1, column 13 is half of a character",
    b'{"text":\n"\\\\\\\\\\uDE00"}': r"\uDE00 in line 2, column 6 is half of a character",
    b'{"text":"\\ud83d\\ude00 \\ud83d\\ud83d\\ude00"}': r"\ud83d in line 1, column 23 is half",
    b'{"text":"\\\\ud83d \\ud83c"}': r"\ud83c in line 1, column 18 is half",
    b'{"NaN \\" NaN": NaN}': "NaN in line 1, column 16",
    b'{"text":\n[1, -Infinity]}': "-Infinity in line 2, column 5",
    b'{"text": -x}': "Expecting value in line 1, column 10",
    '{"text":"a"}'.encode("utf-16"): "the body is UTF-16",
    '{"text":"a"}'.encode("utf-16-be"): "the body is UTF-16",
    **{'{"text":"a"}'.encode(f"utf-32{order}"): "UTF-32, not UTF-8" for order in ("", "-le", "-be")},
    b'{"\0": 1}': "Invalid control character in line 1, column 3",
    b"\x1f\x8b\x08\x00": "compressed by gzip",
    b'{"text": "\xc3\xa4",\n "\xe4"}': "not UTF-8: byte 0xe4 in line 2, column 3",
    b'{"text": "a"': "delimiter in line 1, column 13",
    b'{\n "text": "\xc3\xa4" "b"}': "delimiter in line 2, column 14",
    b'{"text": "a",}': "in line 1, column 1",
    b'{"text": "a"} x': "Extra data in line 1, column 15",
    b'{"text": "a\nb"}': "Invalid control character in line 1, column 12",
    b'{"a": ' + b"[" * 100_000: "too many levels",
}


@pytest.mark.parametrize("content", PROBLEMS, ids=lambda content: repr(content[:30]))
def test_what_is_wrong_is_named_with_its_place(content):
    message, hint = json_problem(content)
    assert PROBLEMS[content] in message
    assert hint


@given(
    st.lists(st.sampled_from([*'{}[]":,\\\n u1', "\\ud83d", "\\ude00", "NaN", "secret", "ä"])).map("".join)
)
def test_every_other_text_has_a_problem_that_does_not_repeat_it(text):
    content = text.encode()
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError):
        message, hint = json_problem(content)
        assert message.startswith("the body is")
        assert "secret" not in message + hint


@given(st.text(st.sampled_from('a\n\\"ä😀'), max_size=9))
def test_whole_characters_are_no_problem(text):
    message, _ = json_problem(json.dumps([text]).encode() + b"x")
    assert "Extra data" in message
