"""What all dialects share: the key of a request, JSON as a type, and the headers of an error."""

import asyncio
import json
from typing import Annotated

import msgspec
import pytest

from regard.serving.dialects.dialect import Call, decoded, error_response, json_response
from regard.serving.dialects.openai_types import ChatRequest
from regard.serving.dialects.own import OwnDialect
from regard.serving.dialects.own_types import TranslateRequest
from regard.serving.http_error import HttpProblem
from tests.serving.made_models import request_of, service_with

KEY = "abcdef0123456789"


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    count: int


class Body(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    inner: Inner | None = None
    few: Annotated[list[int], msgspec.Meta(max_length=2)] = []


@pytest.mark.parametrize(
    ("given", "key"),
    [(f"Bearer {KEY}", KEY), (f"bearer  {KEY} ", KEY), (f"DeepL-Auth-Key {KEY}", KEY), ("Bearer", None),
     ("Bearer  ", None), (f"Basic {KEY}", None), (KEY, None), (None, None)],
)  # fmt: skip
def test_a_key_is_in_one_header_after_its_scheme(given, key):
    headers = {} if given is None else {"Authorization": given}
    assert OwnDialect().key(request_of(headers=headers)) == key


def test_two_keys_are_none():
    request = request_of(headers={"Authorization": f"Bearer {KEY}"})
    request.http.scope["headers"] *= 2
    assert OwnDialect().key(request) is None


def test_json_is_read_as_its_type():
    found = decoded('{"text": "é", "inner": {"count": 2}}'.encode(), Body)
    assert (found.text, found.inner.count) == ("é", 2)


@pytest.mark.parametrize("number", ["2.0", "2e0", "20.0E-1", "9007199254740992.0"])
def test_a_number_without_a_fraction_is_an_integer(number):
    found = decoded(f'{{"text": "a", "inner": {{"count": {number}}}}}'.encode(), Body)
    assert found.inner.count == float(number)
    assert type(found.inner.count) is int


@pytest.mark.parametrize("number", ["2.5", "9007199254740994.0", "1e300", "-0.5"])
def test_other_numbers_are_none(number):
    with pytest.raises(HttpProblem, match=r"inner\.count: Expected `int`, got `float`"):
        decoded(f'{{"text": "a", "inner": {{"count": {number}}}}}'.encode(), Body)


def test_a_byte_order_mark_before_json_says_nothing():
    assert decoded(b'\xef\xbb\xbf{"text": "a"}', Body) == decoded(b'{"text": "a"}', Body)


@pytest.mark.parametrize(
    ("content", "message", "parameter", "code"),
    [
        (b"", "the body is empty", None, "invalid_json"),
        (b'{"text": "\\ud83d"}', "the body is not JSON: \\ud83d in line 1, column 11 is half of a character",
         None, "invalid_json"),
        (b'{"text": "\xff"}', "the body is not UTF-8: byte 0xff in line 1, column 11", None, "invalid_json"),
        (b'{"text": "a", "secret": 1}', "there is no field secret", "secret", "unknown_field"),
        (b'{"text": 7}', "text: Expected `str`, got `int`", "text", "invalid_type"),
        (b'{"text": "a", "inner": {"count": "x"}}', "inner.count: Expected `int`, got `str`", "inner.count",
         "invalid_type"),
        (b'{"inner": null}', "Object missing required field `text`", None, "invalid_type"),
        (b"[]", "Expected `object`, got `array`", None, "invalid_type"),
        (b'{"text": "a", "few": [1, 2, 3]}', "few: Expected `array` of length <= 2", "few", "invalid_type"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_what_is_wrong_with_a_body_is_named(content, message, parameter, code):
    with pytest.raises(HttpProblem) as caught:
        decoded(content, Body)
    found = caught.value
    assert (found.status, found.message, found.parameter, found.code) == (400, message, parameter, code)
    assert found.hint


def test_a_message_does_not_repeat_a_long_name():
    for content in (b'{"%b": 1}', b'{"text": "a", "inner": {"%b": 1}}'):
        with pytest.raises(HttpProblem) as caught:
            decoded(content % (b"x" * 100_000), Body)
        assert caught.value.message == f"there is no field {'x' * 64}"
        assert (caught.value.parameter, caught.value.code) == ("x" * 64, "unknown_field")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("", "''"), ("a\nb", r"'a\nb'"), ("a`b", "a`b"), ("a - at `$.text`", "a - at `$.text`")],
)
def test_a_field_of_any_name_is_named(name, shown):
    with pytest.raises(HttpProblem) as caught:
        decoded(json.dumps({"text": "a", name: 1}).encode(), Body)
    found = caught.value
    assert (found.message, found.parameter) == (f"there is no field {shown}", name)
    assert (found.code, found.hint) == ("unknown_field", "known: few, inner, text")


@pytest.mark.parametrize(
    ("content", "message", "parameter"),
    [
        (b'{"text": "a", "inner": {"count": 1e400}}', "inner.count: Number out of range", "inner.count"),
        (b'{"text": 1.0}', "text: Expected `str`, got `float`", "text"),
        (b'{"inner": {"count": 2.0}, "text": 7}', "text: Expected `str`, got `int`", "text"),
        (b'{"inner": {"count": 2.0}, "few": 1e400}', "Number out of range", None),
    ],
)
def test_a_message_names_what_was_sent_and_not_what_was_tried(content, message, parameter):
    with pytest.raises(HttpProblem) as caught:
        decoded(content, Body)
    assert (caught.value.message, caught.value.parameter) == (message, parameter)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b'{"text": "a", "txt": 1}', "did you mean 'text'?"),
        (b'{"text": "a", "secret": 1}', "known: few, inner, text"),
        (b'{"text": "a", "inner": {"counts": 1}}', "did you mean 'count'?"),
    ],
    ids=str,
)
def test_the_field_that_was_probably_meant_is_named(content, hint):
    with pytest.raises(HttpProblem) as caught:
        decoded(content, Body)
    assert caught.value.hint == hint


def test_fields_are_found_in_lists_and_beside_texts():
    body = {"model": "a", "messages": [{"role": "user", "content": [{"type": "text", "txt": "a"}]}]}
    with pytest.raises(HttpProblem) as caught:
        decoded(json.dumps(body).encode(), ChatRequest)
    assert caught.value.hint == "did you mean 'text'?"
    with pytest.raises(HttpProblem) as caught:
        decoded(json.dumps({"text": "a", "no_such": 1}).encode(), TranslateRequest)
    assert caught.value.hint == "see /openapi.json"
    with pytest.raises(HttpProblem) as caught:
        decoded(json.dumps({"text": "a", "num_beams": 1}).encode(), TranslateRequest)
    assert caught.value.hint == "did you mean 'beam_size'?"


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON ; charset=utf-8"])
def test_a_body_is_json_if_its_header_says_so(kind):
    def body(kind):
        request = request_of(b'{"text": "a"}', headers={"Content-Type": kind})
        return asyncio.run(Call(service=service_with({}), request=request).body(Body))

    assert body(kind) == Body(text="a")
    for other in ("text/json", "", "application/json2"):
        with pytest.raises(HttpProblem) as caught:
            body(other)
        assert (caught.value.status, caught.value.code) == (415, "not_json")


def test_an_error_says_when_to_try_again_and_which_key_it_wants():
    plain = error_response(HttpProblem(400, "a"), {"b": 1})
    assert (plain.status_code, plain.body) == (400, b'{"b":1}')
    assert not {"retry-after", "www-authenticate"} & set(plain.headers)
    assert error_response(HttpProblem(429, "a", retry_after=0), {}).headers["retry-after"] == "0"
    assert error_response(HttpProblem(401, "a"), {}).headers["www-authenticate"] == "Bearer"
    other = error_response(HttpProblem(401, "a"), {}, 403)
    assert (other.status_code, "www-authenticate" in other.headers) == (403, False)
    assert json_response([1], headers={"x-a": "b"}).headers["x-a"] == "b"
    assert json_response([1]).status_code == 200
