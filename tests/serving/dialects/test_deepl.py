"""DeepL's own client against the server."""

import asyncio
import io
import json
import re

import deepl
import pytest

from regard.documents.tag_rules import HTML_RULES, TagRules
from regard.serving.dialects import pairs
from regard.serving.dialects.deepl import IMPOSSIBLE, TAG_FIELDS, DeepLDialect, _glossary_ids, _handling
from regard.serving.dialects.dialect import Call
from regard.serving.dialects.fields import Fields
from regard.serving.glossaries import GlossaryStore
from regard.serving.http_error import HttpProblem
from regard.verbs.serve import ServedModel
from regard.verbs.translate import Translator
from tests.serving import asking
from tests.serving.asking import ask, post
from tests.serving.made_models import request_of, service_with

TEXT = "Thank you. See you tomorrow!"
SPLITTABLE = "I am here. Where are you? He is not here. We will see."  # its sentences together: another text


@pytest.fixture(scope="module")
def client(included):
    deepl.http_client.max_network_retries = 0
    client = deepl.Translator("any-key", server_url=included.url, send_platform_info=False)
    yield client
    client.close()


def test_texts_are_translated(client):
    [wanted] = Translator(asking.included(), threads=1).texts([TEXT])
    result = client.translate_text(TEXT, target_lang="DE")
    assert (result.text, result.detected_source_lang, result.billed_characters) == (
        wanted.text,
        "EN",
        len(TEXT),
    )
    several = client.translate_text([TEXT, "How are you?"], source_lang="EN", target_lang="DE")
    assert [each.text for each in several] == [
        each.text for each in Translator(asking.included(), threads=1).texts([TEXT, "How are you?"])
    ]


def test_a_text_in_the_target_language_is_left_as_it_is_beside_others(client):
    german = "Das ist ein Hund, und das dort ist eine Katze."
    one, same = client.translate_text([TEXT, german], target_lang="DE")
    assert (one.detected_source_lang, same.detected_source_lang, same.text) == ("EN", "DE", german)
    with pytest.raises(deepl.DeepLException, match="text 2 is taken for fr, which is not translated into de"):
        client.translate_text([TEXT, "Où est la gare la plus proche, s'il vous plaît ?"], target_lang="DE")


def test_sentences_can_be_left_together_and_html_keeps_its_tags(client):
    [wanted] = Translator(asking.included(), threads=1, split="off").texts([TEXT])
    assert client.translate_text(TEXT, target_lang="DE", split_sentences="0").text == wanted.text
    page = client.translate_text("<b>Thank you.</b>", source_lang="EN", target_lang="DE", tag_handling="html")
    assert page.text == "<b>Danke.</b>"


def test_split_sentences_0_is_the_same_as_a_number_and_as_a_text(included):
    body = {"text": SPLITTABLE, "target_lang": "DE"}
    [whole] = [
        each.text for each in Translator(asking.included(), threads=1, split="off").texts([SPLITTABLE])
    ]
    [split] = [each.text for each in Translator(asking.included(), threads=1).texts([SPLITTABLE])]
    for value, wanted in ((0, whole), ("0", whole), (1, split), (None, split)):
        answer = post(included, "/v2/translate", {**body, "split_sentences": value}).json
        assert answer["translations"][0]["text"] == wanted
    assert whole != split


def test_too_many_texts_are_refused_before_a_language_is_detected(included, monkeypatch):
    monkeypatch.setattr(pairs, "detected_among", None)
    assert post(included, "/v2/translate", {"text": ["a"] * 129, "target_lang": "DE"}).status == 413


def test_languages_and_usage(client):
    assert [(each.code, each.name) for each in client.get_source_languages()] == [("EN", "English")]
    [target] = client.get_target_languages()
    assert (target.code, target.supports_formality) == ("DE", False)
    before = client.get_usage().character.count
    client.translate_text("Yes.", target_lang="DE")
    assert client.get_usage().character.count == before + 4
    assert not client.get_usage().any_limit_reached


def test_a_server_has_translated_nothing_at_its_start():
    call = Call(service=service_with({"en-de": None}), request=request_of(b""))
    found = asyncio.run(DeepLDialect(GlossaryStore()).usage(call))
    assert json.loads(found.body)["character_count"] == 0


def test_languages_are_those_of_sources_or_of_targets(included):
    answer = ask(included, "GET", "/v2/languages?type=both")
    assert (answer.status, answer.json["message"]) == (400, "type must be source or target")


def test_a_document_of_plain_text_is_translated(client):
    output = io.BytesIO()
    document = TEXT.encode()  # of a stream the client sends no name
    status = client.translate_document(document, output, target_lang="DE", source_lang="EN", filename="a.txt")
    [wanted] = Translator(asking.included(), threads=1).texts([TEXT])
    assert output.getvalue().decode() == wanted.text
    assert (status.done, status.billed_characters) == (True, len(TEXT))
    with pytest.raises(deepl.DeepLException, match="plain-text"):
        client.translate_document(b"x", io.BytesIO(), target_lang="DE", filename="a.docx")


def test_a_document_has_the_tags_and_the_splitting_of_a_text(client):
    def translated(content, **fields):
        output = io.BytesIO()
        asked = {"target_lang": "DE", "filename": "a.txt", "extra_body_parameters": fields}
        handle = client.translate_document_upload(content.encode(), source_lang="EN", **asked)
        client.translate_document_download(handle, output)
        return output.getvalue().decode()

    assert translated("<b>Thank you.</b>", tag_handling="html") == "<b>Danke.</b>"
    page = '<p translate="no">I am <b>tired</b>.</p><p class="x notranslate">Yes.</p>'
    assert translated(page, tag_handling="html") == page
    [wanted] = Translator(asking.included(), threads=1, split="off").texts([SPLITTABLE])
    assert translated(SPLITTABLE, split_sentences="0") == wanted.text
    [yes] = Translator(asking.included(), threads=1).texts(["Yes."])
    assert translated("\nYes.\r\n\r\n") == f"\n{yes.text}\r\n\r\n"
    with pytest.raises(deepl.DeepLException, match="no field text"):
        translated(TEXT, text="a")


def test_fields_that_are_not_known_are_refused_everywhere(included):
    for method, path in [
        ("GET", "/v2/languages?no_such=1"),
        ("GET", "/v2/usage?no_such=1"),
        ("GET", "/v2/glossaries?no_such=1"),
        ("GET", "/v2/glossary-language-pairs?no_such=1"),
        ("GET", "/v3/glossaries?no_such=1"),
        ("POST", "/v2/document/x?no_such=1&document_key=y"),
        ("POST", "/v2/document/x/result?no_such=1&document_key=y"),
    ]:
        answer = ask(included, method, path)
        assert (answer.status, answer.json["message"]) == (400, "there is no field no_such"), path


REFUSED = [
    ({"target_lang": "DE"}, "text is missing"),
    ({"text": ["a"]}, "target_lang is missing"),
    ({"text": ["a"], "target_lang": "ZZ"}, "target_lang not supported"),
    ({"text": ["a"], "target_lang": "DE", "source_lang": "FR"}, "source_lang not supported"),
    ({"text": ["a"], "target_lang": "DE-CH"}, "target_lang not supported"),
    ({"text": ["a"], "target_lang": "DE", "source_lang": "EN-XYZ"}, "source_lang not supported"),
    ({"text": ["a"], "target_lang": "DE", "model_type": "best"}, "model_type must be"),
    ({"text": ["a"], "target_lang": "DE", "outline_detection": "1"}, "outline_detection"),
    ({"text": ["a"], "target_lang": "DE", "formality": "more"}, "formality"),
    ({"text": ["a"], "target_lang": "DE", "tag_handling": "md"}, "tag_handling other than html and xml"),
    ({"text": ["a<"], "target_lang": "DE", "tag_handling": "xml"}, "not well-formed XML"),
    ({"text": ["a"], "target_lang": "DE", "glossary_id": "x"}, "glossary_id"),
    ({"text": ["a"], "target_lang": "DE", "context": "x"}, "context"),
    ({"text": ["a"], "target_lang": "DE", "split_sentences": "nonewlines"}, "split_sentences"),
    ({"text": ["a"], "target_lang": "DE", "no_such": 1}, "no_such"),
    ({"text": [1], "target_lang": "DE"}, "text must be"),
]


@pytest.mark.parametrize(("body", "named"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_cannot_be_done_is_refused_by_name(included, body, named):
    answer = post(included, "/v2/translate", body)
    assert answer.status == 400
    assert set(answer.json) == {"message", "detail"}
    assert named in answer.json["message"]


def test_what_asks_for_what_is_done_anyway_is_accepted(included):
    body = {"text": ["Yes."], "target_lang": "DE"}
    [wanted] = post(included, "/v2/translate", body).json["translations"]
    assert "model_type_used" not in wanted
    more = {"outline_detection": "0", "source_lang": "EN-GB", "preserve_formatting": True}
    assert post(included, "/v2/translate", body | more).json["translations"] == [wanted]
    typed = post(included, "/v2/translate", body | {"model_type": "prefer_quality_optimized"})
    assert typed.json["translations"] == [wanted | {"model_type_used": "latency_optimized"}]


def test_a_form_and_json_have_the_same_answer(included):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    form = ask(included, "POST", "/v2/translate", raw=b"text=Yes.&text=No.&target_lang=DE", headers=headers)
    assert form.json == post(included, "/v2/translate", {"text": ["Yes.", "No."], "target_lang": "DE"}).json


def test_the_key_is_in_its_header(serving, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef01234567\n")
    server = serving(api_keys=keys)
    for key, known in (("0123456789abcdef01234567", True), ("wrong", False)):
        client = deepl.Translator(key, server_url=server.url)
        if known:
            assert client.translate_text("Yes.", target_lang="DE").text
        else:
            with pytest.raises(deepl.AuthorizationException):
                client.translate_text("Yes.", target_lang="DE")
        client.close()


def given(is_form=False, **values):
    return Fields({name: [value] for name, value in values.items()} if is_form else values, is_form=is_form)


@pytest.mark.parametrize("is_form", [False, True])
@pytest.mark.parametrize(
    ("values", "handling"),
    [
        ({}, (None, "auto")),
        ({"tag_handling": "", "split_sentences": "", "formality": ""}, (None, "auto")),
        ({"tag_handling": "html", "split_sentences": "1"}, (HTML_RULES, "auto")),
        ({"split_sentences": "0"}, (None, "off")),
        ({"formality": "prefer_less", "model_type": "latency_optimized"}, (None, "auto")),
        ({"formality": "prefer_more", "model_type": "prefer_quality_optimized"}, (None, "auto")),
        ({"formality": "default", "context": "", "outline_detection": "0"}, (None, "auto")),
    ],
    ids=str,
)
def test_what_is_possible_is_html_or_not_and_split_or_not(values, handling, is_form):
    assert _handling(given(is_form, **values)) == handling


@pytest.mark.parametrize("neutral", [None, "", [], False])
def test_a_field_that_asks_for_nothing_impossible_is_accepted(neutral):
    assert _handling(given(**dict.fromkeys(IMPOSSIBLE, neutral), split_sentences=None)) == (None, "auto")
    assert _handling(given(outline_detection=0, split_sentences=0)) == (None, "off")


TAGS = [
    ({"ignore_tags": "X, y"}, {"ignored": frozenset("xy")}),
    ({"ignore_tags": ["x", "y,z"]}, {"ignored": frozenset("xyz")}),
    ({"splitting_tags": "x"}, {"splitting": frozenset("x")}),
    ({"non_splitting_tags": "br,"}, {"inline": frozenset(["br"])}),
    ({"outline_detection": False, "splitting_tags": "p"}, {"outline": False, "splitting": frozenset("p")}),
    ({"tag_handling": "xml", "ignore_tags": "X,_y"}, {"ignored": frozenset(["X", "_y"]), "xml": True}),
    *(({"outline_detection": value}, {"outline": True}) for value in (True, "1", 1, "true", None, "")),
    *(({"outline_detection": value}, {"outline": False}) for value in (False, "0", 0)),
]


@pytest.mark.parametrize(("values", "rules"), TAGS, ids=[str(values) for values, _ in TAGS])
def test_tags_have_the_rules_that_fields_give_them(values, rules):
    assert _handling(given(**{"tag_handling": "html"} | values)) == (TagRules(**rules), "auto")


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        *(({name: value}, name, "is for HTML") for name in TAG_FIELDS[:3] for value in ("x", ["x"])),
        ({"outline_detection": "1"}, "outline_detection", "is for HTML"),
        ({"outline_detection": 2, "tag_handling": "html"}, "outline_detection", "must be 0 or 1"),
        ({"ignore_tags": "<x>", "tag_handling": "html"}, "ignore_tags", "not a name of a tag"),
        ({"ignore_tags": "x", "splitting_tags": "x", "tag_handling": "html"}, "ignore_tags", "two lists"),
        (
            {"non_splitting_tags": "x", "splitting_tags": "x", "tag_handling": "html"},
            "non_splitting_tags",
            "two lists",
        ),
    ],
    ids=str,
)
def test_tags_that_cannot_be_honoured_are_refused_by_name(values, name, message):
    with pytest.raises(HttpProblem, match=message) as refused:
        _handling(given(**values))
    assert refused.value.parameter == name


def html_of(client, page, **fields):
    return client.translate_text(page, source_lang="EN", target_lang="DE", tag_handling="html", **fields).text


def test_tags_split_or_not_as_the_client_says(client):
    """What is inline may come at another place; the text is that of the whole sentence."""
    whole, one, two = (
        client.translate_text(text, source_lang="EN", target_lang="DE").text
        for text in ("I have two brothers.", "I have", "two brothers.")
    )
    parts, page = f"{one} <x>{two}</x>", "I have <x>two brothers.</x>"
    assert whole != f"{one} {two}"
    assert html_of(client, page).replace("<x>", "").replace("</x>", "") == whole
    assert html_of(client, page, splitting_tags=["x"]) == parts
    block = page.replace("x>", "p>")
    assert html_of(client, block) == parts.replace("x>", "p>")
    for fields in ({"non_splitting_tags": ["p"]}, {"outline_detection": False}):
        assert html_of(client, block, **fields).replace("<p>", "").replace("</p>", "") == whole
    assert html_of(client, block, outline_detection=False, splitting_tags="p") == parts.replace("x>", "p>")


def test_xml_has_each_field_that_html_has(client):
    def of(text, **fields):
        return client.translate_text(text, source_lang="EN", target_lang="DE", **fields).text

    whole, one, two, yes = map(of, ("I have two brothers.", "I have", "two brothers.", "Yes."))
    page = "<doc><par>I have <x>two brothers.</x></par><t>Yes.</t></doc>"

    def parts(text):
        return f"<doc><par>{text}</par><t>{yes}</t></doc>"

    def without(page, *names):
        return re.sub(f"</?({'|'.join(names)})>", "", page)

    assert without(of(page, tag_handling="xml"), "x") == parts(whole)
    assert of(page, tag_handling="xml", splitting_tags=["x"]) == parts(f"{one} <x>{two}</x>")
    page = "<X>I have</X> <Y>two brothers.</Y>"
    for fields in ({}, {"non_splitting_tags": "x,y"}, {"splitting_tags": "X", "outline_detection": False}):
        assert without(of(page, tag_handling="xml", **fields), "Y") == without(
            f"<X>{one}</X> <Y>{two}</Y>", "Y"
        )
    for fields in ({"non_splitting_tags": ["X", "Y"]}, {"outline_detection": False}):
        assert without(of(page, tag_handling="xml", **fields), "X", "Y") == whole
    with pytest.raises(deepl.DeepLException, match=r"a text is not well-formed XML.* line 1"):
        of("<X>", tag_handling="xml")


@pytest.mark.parametrize("markup", ["html", "xml"])
def test_an_ignored_element_stays_in_its_sentence_and_the_sentence_is_translated_as_one(client, markup):
    def of(text, **fields):
        return client.translate_text(text, source_lang="EN", target_lang="DE", **fields).text

    asked = {"tag_handling": markup, "ignore_tags": "x"}
    kept = "<x>two &amp; two</x>"
    whole = of("I have 42 <b>brothers</b>.", tag_handling=markup)
    assert of(f"I have {kept} <b>brothers</b>.", **asked) == whole.replace("42", kept)
    [wanted] = Translator(asking.included(), threads=1, keep=["#"]).texts(["I know #."])
    assert of("I know <x>a.</x>.", **asked) == wanted.text.replace("#", "<x>a.</x>")


def test_a_model_that_cannot_align_translates_in_parts_and_refuses_what_needs_it(client, monkeypatch):
    monkeypatch.setattr(ServedModel, "aligns", False)
    one, two = (
        client.translate_text(text, source_lang="EN", target_lang="DE").text
        for text in ("I have", "two brothers.")
    )
    page = "I have <x>two brothers.</x>"
    assert html_of(client, page) == f"{one} <x>{two}</x>"
    for name, value in (("non_splitting_tags", "p"), ("outline_detection", False)):
        with pytest.raises(deepl.DeepLException, match=f"{name} is not supported"):
            html_of(client, page, **{name: value})


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_each_field_that_is_impossible_is_refused_by_name(name):
    for value in ("x", ["x"], True, "1"):
        with pytest.raises(HttpProblem, match=f"{name} is not supported") as refused:
            _handling(given(**{name: value}))
        assert refused.value.parameter == name


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        ({}, []),
        ({"glossary_id": "a"}, ["a"]),
        ({"glossary_id": "", "glossary_ids": " a, b,,"}, ["a", "b"]),
        ({"glossary_ids": ["a", " ", "b "]}, ["a", "b"]),
        ({"glossary_id": "a", "glossary_ids": []}, ["a"]),
        ({"glossary_ids": ",".join("abcde")}, [*"abcde"]),
    ],
    ids=str,
)
def test_glossaries_are_named_by_one_id_or_several(values, ids):
    assert _glossary_ids(given(**values)) == ids


def test_too_many_glossaries_and_two_ways_to_name_them_are_refused():
    for values, message in (
        ({"glossary_ids": ",".join("abcdef")}, "may have 5 glossaries"),
        ({"glossary_id": "a", "glossary_ids": "b"}, "do not go together"),
    ):
        with pytest.raises(HttpProblem, match=message) as refused:
            _glossary_ids(given(**values))
        assert refused.value.parameter == "glossary_ids"
