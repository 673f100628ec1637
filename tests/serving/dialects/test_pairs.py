"""Which model translates between two languages, and the terms of a glossary in a sentence."""

import asyncio
from types import SimpleNamespace

import pytest

from regard.documents.tag_rules import TagRules
from regard.errors import ConfigError
from regard.serving.dialects.controls import MOST_PHRASES
from regard.serving.dialects.dialect import Call
from regard.serving.dialects.pairs import (
    AT_ONCE,
    _terms,
    check_detected,
    model_between,
    pairs,
    source_of,
    sources_of,
    stays,
    targets_by_source,
    translated,
)
from regard.serving.engine import Engine
from regard.serving.http_error import HttpProblem
from tests.serving.made_models import MadeModel, Runner, request_of, service_with

SERVICE = service_with(dict.fromkeys(["chat", "en-de", "de-en", "en-fr", "en-de.large", "fr-de"]))
MODELS = SERVICE.models
MARKED = "one<b>two</b>"
GERMAN, FRENCH = "Wo ist bitte der nächste Bahnhof?", "Où est la gare la plus proche, s'il vous plaît ?"


def refused(call, *arguments):
    with pytest.raises(HttpProblem) as caught:
        call(*arguments)
    assert caught.value.status == 400
    return caught.value


def test_the_languages_are_those_of_the_names_and_each_pair_is_listed_once():
    assert [(source, target, slot.name) for source, target, slot in pairs(MODELS)] == [
        ("en", "de", "en-de"), ("de", "en", "de-en"), ("en", "fr", "en-fr"),
        ("en", "de", "en-de.large"), ("fr", "de", "fr-de"),
    ]  # fmt: skip
    assert targets_by_source(MODELS) == {"en": ["de", "fr"], "de": ["en"], "fr": ["de"]}


def test_the_first_model_of_a_pair_translates_and_what_is_missing_is_named():
    assert model_between(MODELS, "en", "de").name == "en-de"
    assert model_between(MODELS, "fr", "de").name == "fr-de"
    found = refused(model_between, MODELS, "xx", "de")
    assert (found.message, found.parameter) == ("xx is not supported as a source", "source")
    assert found.hint == "known: de, en, fr"
    found = refused(model_between, MODELS, "en", "x" * 99)
    assert (found.message, found.parameter) == (f"{'x' * 20} is not supported as a target", "target")
    found = refused(model_between, MODELS, "de", "fr")
    assert (found.message, found.parameter) == ("de to fr is not supported", "target")
    assert found.hint == "from de: en"
    assert refused(model_between, service_with({"chat": None}).models, "en", "de").hint == "known: none"


def test_texts_in_the_target_language_stay_and_other_languages_are_named():
    check_detected(MODELS, ["en", "de", "fr"], "de")
    found = refused(check_detected, MODELS, ["en", "de", "it"], "de")
    assert found.message == "text 3 is taken for it, which is not translated into de"
    assert found.hint == "name the language of the source: en, fr"
    assert stays(MODELS, "de", "de")
    assert not stays(service_with({"de-de": None}).models, "de", "de")
    assert refused(check_detected, MODELS, [], "it").message == "it is not supported as a target"


def test_the_source_is_a_language_from_which_the_target_can_be_reached():
    assert source_of(MODELS, FRENCH, "de")[0] == "fr"
    assert source_of(MODELS, GERMAN, "en")[0] == "de"
    assert source_of(MODELS, "a", "en")[0] == "de", "no other language is translated into English"
    assert refused(source_of, MODELS, FRENCH, "xx").parameter == "target"


def test_the_languages_of_short_and_of_long_texts_are_found():
    def found(texts):
        call = Call(service=service_with({"en-de": None, "fr-de": None}), request=request_of())
        return [language for language, _ in asyncio.run(sources_of(call, texts, "de"))]

    assert found([FRENCH, "Where is the station?"]) == ["fr", "en"]
    assert found([FRENCH * (1 + AT_ONCE // len(FRENCH))]) == ["fr"]


def test_sentences_with_the_same_terms_require_the_same_and_only_so_many():
    one = _terms(lambda sentence: {"cat": "Katze", "house": "haus"}, "x")
    assert one == _terms(lambda sentence: {"house": "haus", "cats": "Katze", "cat": "Katze"}, "y")
    assert one == (("Katze",), ("haus", "Haus"))
    assert _terms(lambda sentence: {}, "x") == ()
    many = {str(number): f"T{number}" for number in range(MOST_PHRASES)}
    assert len(_terms(lambda sentence: many, "x")) == MOST_PHRASES
    found = refused(_terms, lambda sentence: {**many, "more": "M"}, "x")
    assert found.parameter == "glossary_id"


def test_terms_that_a_model_cannot_output_are_named_and_other_errors_stay_their_own(monkeypatch):
    service, failure = service_with({"en-de": None}), ConfigError("no such text", "another")

    async def answer(*given):
        raise failure

    monkeypatch.setattr(service, "answer", answer)

    def error_of(entries):
        call = Call(service=service, request=request_of())
        with pytest.raises((ConfigError, HttpProblem)) as caught:
            asyncio.run(translated(call, ["a"], ["en"], "de", entries=entries))
        return caught.value

    assert error_of(None) is failure
    found = error_of(lambda sentence: {})
    assert (found.status, found.parameter) == (400, "glossary_id")
    assert found.message == "the glossary cannot be honoured: no such text"


@pytest.mark.parametrize(
    ("given", "parts", "found", "count"),
    [
        ({}, [MARKED], [[MARKED.upper()]], 1),
        ({"rules": TagRules(splitting=frozenset("b"))}, ["one", "two"], [["ONE<b>TWO</b>"]], 1),
        ({"alternatives": 2}, [MARKED], [[MARKED.upper()] * 3], 3),
    ],
)
def test_a_text_is_translated_as_it_is_and_once_unless_more_is_asked_for(
    monkeypatch, given, parts, found, count
):
    service, asked = service_with({"en-de": Engine(MadeModel(), Runner())}), []
    monkeypatch.setattr(MadeModel, "aligns", True)

    async def answer(request, slot, settings, texts, required):
        asked.append((settings.count, settings.split, texts, required))
        return SimpleNamespace(
            answers=[
                SimpleNamespace(
                    text=text.upper(), candidates=[SimpleNamespace(text=text.upper(), tokens=[5, 6])] * count
                )
                for text in texts
            ]
        )

    monkeypatch.setattr(service, "answer", answer)
    call = Call(service=service, request=request_of())
    assert asyncio.run(translated(call, [MARKED], ["en"], "de", **given)) == found
    assert asked == [(count, "auto", parts, None)]
    assert call.request.output_tokens == 2 * count * len(parts)
