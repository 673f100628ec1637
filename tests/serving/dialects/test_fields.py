"""The fields of a request: of JSON, of a form, of the query; each type, and what is refused by name."""

import asyncio
import io

import pytest
from starlette.datastructures import UploadFile

from regard.serving.dialects.dialect import Call
from regard.serving.dialects.fields import Fields, fields_of, uploaded_text
from regard.serving.http_error import HttpProblem
from regard.serving.limits import ServerLimits
from tests.serving.made_models import request_of, service_with

FORM = "application/x-www-form-urlencoded"
JSON = Fields(
    {"text": "a", "list": ["a", "b"], "none": None, "number": 3, "empty": "", "flag": True}, is_form=False
)
SENT = Fields(
    {"text": ["a"], "twice": ["a", "b"], "number": ["12"], "empty": [""], "large": ["1" * 10]}, is_form=True
)


def wrong(call, *arguments):
    with pytest.raises(HttpProblem) as caught:
        call(*arguments)
    assert (caught.value.status, caught.value.code) == (400, "invalid_type")
    assert caught.value.parameter == arguments[0]
    return caught.value.message


def test_a_text_is_one_text_and_has_a_default():
    assert JSON.text("text") == SENT.text("text") == "a"
    assert JSON.text("none", "b") == JSON.text("missing", "b") == SENT.text("missing", "b") == "b"
    assert JSON.text("missing") is None
    assert SENT.text("empty", "b") == ""
    assert wrong(JSON.text, "number") == "number must be a text"
    assert wrong(JSON.text, "list") == "list must be a text"
    assert wrong(SENT.text, "twice") == "twice is given twice"


def test_texts_are_one_or_several():
    assert JSON.texts("text") == SENT.texts("text") == "a"
    assert JSON.texts("list") == SENT.texts("twice") == ["a", "b"]
    assert JSON.texts("none") is SENT.texts("missing") is None
    assert wrong(JSON.texts, "number") == "number must be a text, or a list of texts"
    mixed = Fields({"texts": ["a", 3]}, is_form=False)
    assert "must be a text" in wrong(mixed.texts, "texts")


def test_a_list_of_one_text_stays_a_list_in_json_but_not_in_a_form():
    assert Fields({"q": ["a"]}, is_form=False).texts("q") == ["a"]
    assert Fields({"q": ["a"]}, is_form=True).texts("q") == "a"
    assert Fields({"q": ["a"]}, is_form=False).given("q") == ["a"]


def test_a_number_is_whole_and_may_be_a_text():
    assert (JSON.number("number"), SENT.number("number")) == (3, 12)
    assert JSON.number("empty", 7) == SENT.number("empty", 7) == SENT.number("missing", 7) == 7
    assert SENT.number("missing") == 0
    assert Fields({"n": "9" * 9}, is_form=False).number("n") == 999_999_999
    assert Fields({"n": -2}, is_form=False).number("n") == -2
    for value in ("9" * 10, "-1", "1.5", "x", "²", "٣", True, False, 1.0, [1]):
        message = wrong(Fields({"n": value}, is_form=False).number, "n")
        assert message == "n must be a whole number"
    assert "whole number" in wrong(SENT.number, "large")


def test_a_file_is_no_text():
    file = UploadFile(io.BytesIO(b"x"))
    assert Fields({"file": [file]}, is_form=True).file("file") is file
    assert SENT.file("missing") is None
    assert wrong(SENT.file, "text") == "text must be a file"


def test_a_field_of_another_name_is_refused_with_those_that_are_known():
    JSON.refuse_others(["text", "list", "none", "number", "empty", "flag", "more"])
    with pytest.raises(HttpProblem, match="there is no field flag") as caught:
        JSON.refuse_others(["text", "list", "none", "number", "empty"])
    assert (caught.value.parameter, caught.value.hint) == ("flag", "known: empty, list, none, number, text")
    with pytest.raises(HttpProblem) as caught:
        JSON.refuse_others(["text", "lists", "none", "number", "empty", "flag"])
    assert (caught.value.parameter, caught.value.hint) == ("list", "did you mean 'lists'?")
    with pytest.raises(HttpProblem) as caught:
        Fields({"x" * 99: 1}, is_form=False).refuse_others([])
    assert (len(caught.value.message), len(caught.value.parameter)) == (len("there is no field ") + 64, 64)


def fields(content, kind=None, query="", **more):
    request = request_of(content, headers={"Content-Type": kind} if kind else {})
    request.http.scope["query_string"] = query.encode()
    return asyncio.run(fields_of(Call(service=service_with({}), request=request), **more))


def test_json_a_form_and_the_query_are_read_and_the_body_comes_first():
    found = fields(b'{"a": 1}', "Application/JSON; charset=utf-8", "a=2&b=3&b=4")
    assert (found.given("a"), found.given("b"), found.is_form) == (1, "3", False)
    found = fields(b"a=1", FORM, "a=2&b=3")
    assert (found.text("a"), found.text("b"), found.is_form) == ("1", "3", True)
    found = fields(b"", None, "b=3&b=4")
    assert (found.texts("b"), found.is_form) == (["3", "4"], True)


def test_a_body_of_another_kind_is_refused_and_an_empty_one_unless_it_may_be():
    for content, query in ((b"a", ""), (b"a", "b=3"), (b"", "")):
        with pytest.raises(HttpProblem, match="neither JSON nor a form") as caught:
            fields(content, "text/plain", query)
        assert (caught.value.status, caught.value.code) == (415, "not_json")
    assert fields(b"", None, may_be_empty=True).texts("a") is None
    with pytest.raises(HttpProblem, match="neither"):
        fields(b"a", None, may_be_empty=True)


def test_other_limits_than_the_server_s_may_hold():
    for kind, content in (
        ("application/json", b'{"a": "1234567890"}'),
        (FORM, b"a=1234567890"),
        (None, b"a" * 19),
    ):
        with pytest.raises(HttpProblem) as caught:
            fields(content, kind, limits=ServerLimits(body_bytes=8, upload_bytes=8))
        assert caught.value.status == 413


@pytest.mark.parametrize(
    ("filename", "name", "content", "text"),
    [
        ("a.txt", None, "Grüße".encode(), "Grüße"),
        ("A.TXT", None, b"\xef\xbb\xbfx", "x"),
        ("a.pdf", "b.txt", b"x", "x"),
        ("a.txt", "b.pdf", b"x", None),
        ("a.pdf", None, b"x", None),
        (None, None, b"x", None),
        ("a.txt", None, b"\xff", None),
    ],
)
def test_only_plain_text_in_utf_8_is_a_text_file(filename, name, content, text):
    reading = uploaded_text(UploadFile(io.BytesIO(content), filename=filename), name)
    if text is not None:
        assert asyncio.run(reading) == text
        return
    with pytest.raises(HttpProblem, match=r"only plain-text files|is not UTF-8") as caught:
        asyncio.run(reading)
    assert (caught.value.status, caught.value.hint) == (400, "save it as UTF-8 text")


@pytest.mark.parametrize(
    "sent", ["a=Café “Zürich” 日本&b=x", "a=Caf%C3%A9+%E2%80%9CZ%C3%BCrich%E2%80%9D 日本&b=x"]
)
def test_a_form_is_utf_8_whether_it_is_escaped_or_not(sent):
    found = fields(sent.encode(), FORM)
    assert (found.text("a"), found.text("b")) == ("Café “Zürich” 日本", "x")


@pytest.mark.parametrize("sent", [b"a=caf\xe9", b"a=caf%E9", b"&".join([b"a=1"] * 500)])
def test_a_form_that_is_not_utf_8_or_has_too_many_fields_is_refused(sent):
    with pytest.raises(HttpProblem, match=r"not a form in UTF-8|more than 200 fields") as caught:
        fields(sent, FORM)
    assert caught.value.status == 400


def test_a_form_keeps_empty_and_repeated_fields():
    found = fields(b"a=&b=1&b=2", FORM)
    assert (found.text("a"), found.texts("b")) == ("", ["1", "2"])
