"""The language of a text."""

import pytest

from regard.serving import languages
from regard.serving.languages import NAMES, PROBABLE, SURE, detected, detected_among, language_name

TEXTS = {
    "en": "Where is the nearest railway station, please?",
    "de": "Wo ist bitte der nächste Bahnhof?",
    "fr": "Où est la gare la plus proche, s'il vous plaît ?",
    "cs": "Kde je prosím nejbližší nádraží?",
    "ru": "Где ближайший вокзал?",
    "ja": "一番近い駅はどこですか。",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_sentence_is_recognised(language):
    ranked = detected(TEXTS[language])
    assert ranked[0][0] == language
    assert sum(probability for _, probability in ranked) == pytest.approx(1, abs=1e-3)
    assert [each for _, each in ranked] == sorted((each for _, each in ranked), reverse=True)


def test_a_known_language_is_preferred_where_it_is_doubtful():
    assert detected_among("a", {"en"})[0] == "en"
    assert detected_among(TEXTS["ja"], {"en", "de"})[0] == "ja"


@pytest.mark.parametrize(
    ("ranked", "found"),
    [
        ({"ja": 0.9, "en": PROBABLE}, "en"),
        ({"ja": 0.9, "en": PROBABLE / 2}, "ja"),
        ({"ja": SURE / 2, "en": PROBABLE / 2}, "en"),
        ({"ja": SURE, "cs": PROBABLE, "en": PROBABLE / 2}, "ja"),
        ({"ja": SURE / 2}, "ja"),
    ],
    ids=str,
)
def test_a_known_language_must_be_probable_or_beside_none_that_is_sure(monkeypatch, ranked, found):
    monkeypatch.setattr(languages, "detected", lambda text: [*ranked.items()])
    assert detected_among("a text", {"en"}) == (found, ranked[found])


def test_a_text_of_spaces_says_nothing_of_its_language():
    assert detected(" \n") == [("en", 0.0)]


@pytest.mark.parametrize("text", ["", " \n", "\0", "123", "\ud83d", "🙂" * 10_000])
def test_any_text_has_an_answer(text):
    assert detected(text)[0][0]


def test_languages_have_names():
    assert language_name("de") == "German"
    assert language_name("xx") == "xx"
    assert all(len(code) == 2 and name[0].isupper() for code, name in NAMES.items())
