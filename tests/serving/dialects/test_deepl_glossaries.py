"""DeepL's own client makes glossaries and translates by them."""

import io

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries

from regard.decoding.controls import Controls
from regard.serving.scheduler import QueueLimits
from regard.verbs.serve import AnswerSettings, ServedModel
from regard.verbs.translate import Translator
from tests.serving import asking
from tests.serving.asking import ask, post

STATION = {"station": "Haltestelle", "car": "Wagen"}
PLAIN = "I am tired."
TEXT = f"Where is the station? {PLAIN} I bought a new car yesterday."


@pytest.fixture
def client(included):
    deepl.http_client.max_network_retries = 0
    client = deepl.DeepLClient("any-key", server_url=included.url, send_platform_info=False)
    delete_all(client)  # what requests of other tests have left in this server
    yield client
    delete_all(client)
    client.close()


def delete_all(client):
    for each in client.list_multilingual_glossaries():
        client.delete_multilingual_glossary(each)


def test_a_glossary_is_made_listed_read_and_deleted(client):
    [pair] = client.get_glossary_languages()
    assert (pair.source_lang, pair.target_lang) == ("en", "de")
    made = client.create_glossary("mine", "EN-US", "DE", STATION)
    assert (made.name, made.ready, made.source_lang, made.target_lang, made.entry_count) == (
        *("mine", True, "EN", "DE", 2),
    )
    assert client.get_glossary_entries(made) == STATION
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert [each.glossary_id for each in client.list_glossaries()] == [made.glossary_id]
    client.delete_glossary(made)
    for call in (client.get_glossary, client.get_glossary_entries, client.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            call(made.glossary_id)
    assert client.list_glossaries() == []


def test_a_csv_file_is_a_glossary_too(client):
    made = client.create_glossary_from_csv("csv", "EN", "DE", "station,Haltestelle,EN,DE\ncar,Wagen\n")
    assert client.get_glossary_entries(made) == STATION


def test_sentences_with_a_term_have_its_translation_and_the_others_stay(client):
    made = client.create_glossary("mine", "EN", "DE", STATION)
    found = client.translate_text(TEXT, source_lang="EN", target_lang="DE", glossary=made).text
    without = client.translate_text(TEXT, source_lang="EN", target_lang="DE").text
    forced = {
        sentence: Translator(asking.included(), threads=1, controls=Controls(must_contain=terms)).texts(
            [sentence]
        )
        for sentence, terms in {
            "Where is the station?": ("Haltestelle",),
            "I bought a new car yesterday.": ("Wagen",),
        }.items()
    }
    one, other = (next(translations).text for translations in forced.values())
    [plain] = Translator(asking.included(), threads=1).texts([PLAIN])
    assert found == f"{one} {plain.text} {other}"
    assert "Haltestelle" in one
    assert "Wagen" in other
    assert plain.text in without
    assert "Haltestelle" not in without


def test_a_text_without_a_term_has_the_answer_without_a_glossary(client):
    made = client.create_glossary("mine", "EN", "DE", {"zebra": "Pferd"})
    asked = {"source_lang": "EN", "target_lang": "DE"}
    assert (
        client.translate_text(TEXT, **asked, glossary=made).text == client.translate_text(TEXT, **asked).text
    )


def test_html_and_documents_have_glossaries(client):
    made = client.create_glossary("mine", "EN", "DE", STATION)
    page = client.translate_text(
        "<b>Where is the station?</b>", source_lang="EN", target_lang="DE", tag_handling="html", glossary=made
    )
    assert page.text.startswith("<b>")
    assert "Haltestelle" in page.text
    kept = "Where is the station? <x>A b.</x> Where is it?"  # with a glossary such an element splits
    asked = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "xml", "ignore_tags": "x"}
    page = client.translate_text(kept, **asked, outline_detection=False, glossary=made).text
    assert "Haltestelle" in page.partition("<x>A b.</x>")[0]
    output = io.BytesIO()
    document = {"source_lang": "EN", "target_lang": "DE", "filename": "a.txt"}
    client.translate_document(TEXT.encode(), output, **document, glossary=made)
    assert "Haltestelle" in output.getvalue().decode()
    output = io.BytesIO()
    client.translate_document(TEXT.encode(), output, **document, glossary_ids=[made, made])
    assert "Haltestelle" in output.getvalue().decode()


def test_of_several_glossaries_the_first_with_a_term_counts(client):
    one = client.create_glossary("one", "EN", "DE", {"station": "Station"})
    other = client.create_glossary("other", "EN", "DE", STATION)
    asked = {"source_lang": "EN", "target_lang": "DE"}
    found = client.translate_text(TEXT, **asked, glossary_ids=[one, other]).text
    assert "Station" in found
    assert "Wagen" in found
    assert "Haltestelle" in client.translate_text(TEXT, **asked, glossary_ids=[other, one]).text


def test_a_glossary_of_several_dictionaries_is_made_changed_and_deleted(client):
    entries = MultilingualGlossaryDictionaryEntries("EN", "DE", STATION)
    made = client.create_multilingual_glossary("mine", [entries])
    [dictionary] = made.dictionaries
    assert (dictionary.source_lang, dictionary.target_lang, dictionary.entry_count) == ("EN", "DE", 2)
    assert client.update_multilingual_glossary_name(made, "other").name == "other"
    more = MultilingualGlossaryDictionaryEntries("EN", "DE", {"car": "Auto", "house": "Geb\u00e4ude"})
    [dictionary] = client.update_multilingual_glossary_dictionary(made, more).dictionaries
    assert dictionary.entry_count == 3
    found = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries[0]
    assert deepl.util.convert_tsv_to_dict(found.entries) == {
        **STATION,
        "car": "Auto",
        "house": "Geb\u00e4ude",
    }
    text = client.translate_text("A red house.", source_lang="EN", target_lang="DE", glossary=made).text
    assert "Geb\u00e4ude" in text
    assert client.replace_multilingual_glossary_dictionary(made, entries).entry_count == 2
    assert client.get_multilingual_glossary(made.glossary_id).dictionaries[0].entry_count == 2
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    assert client.get_multilingual_glossary(made.glossary_id).dictionaries == []
    assert client.list_glossaries() == []  # version 2 has those of one dictionary
    with pytest.raises(deepl.GlossaryNotFoundException, match="0 dictionaries"):
        client.get_glossary(made.glossary_id)
    with pytest.raises(deepl.DeepLException, match="no dictionary of en to de"):
        client.translate_text("a", source_lang="EN", target_lang="DE", glossary=made.glossary_id)
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(made.glossary_id)


def test_a_term_that_the_model_has_no_tokens_for_is_refused(client):
    made = client.create_glossary("mine", "EN", "DE", {"station": "\u99c5"})
    with pytest.raises(deepl.DeepLException, match=r"cannot be honoured.*no tokens"):
        client.translate_text(TEXT, source_lang="EN", target_lang="DE", glossary=made)
    assert client.translate_text(PLAIN, source_lang="EN", target_lang="DE", glossary=made).text


def test_terms_that_do_not_fit_are_refused(client):
    made = client.create_glossary("mine", "EN", "DE", {"tired": "Haltestelle " * 60})
    with pytest.raises(deepl.DeepLException, match=r"cannot be honoured.*tokens, but at most"):
        client.translate_text(PLAIN, source_lang="EN", target_lang="DE", glossary=made)


BODY = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
REFUSED = [
    ("POST", "/v2/glossaries", {**BODY, "source_lang": "fr"}, "no model translates from 'fr'"),
    ("POST", "/v2/glossaries", {**BODY, "name": ""}, "the name of a glossary"),
    ("POST", "/v2/glossaries", {**BODY, "no_such": 1}, "no field no_such"),
    ("POST", "/v2/glossaries", {"name": "a"}, "source_lang is missing"),
    ("POST", "/v2/glossaries", {**BODY, "entries": "a"}, "entry 1"),
    ("POST", "/v3/glossaries", {"name": "a", "dictionaries": [{**BODY}]}, "no field name"),
    ("POST", "/v3/glossaries", {"name": "a"}, "dictionaries"),
    (
        "POST",
        "/v2/translate",
        {"text": "a", "target_lang": "de", "glossary_id": "x"},
        "source_lang is missing",
    ),
    (
        "POST",
        "/v2/translate",
        {"text": "a", "source_lang": "en", "target_lang": "de", "glossary_id": "../x"},
        "no such glossary",
    ),
    (
        "POST",
        "/v2/translate",
        {"text": "a", "source_lang": "en", "target_lang": "de", "glossary_ids": ["x"] * 6},
        "5 glossaries",
    ),
    (
        "POST",
        "/v2/translate",
        {"text": "a", "source_lang": "en", "target_lang": "de", "glossary_ids": ["x"], "glossary_id": "y"},
        "do not go together",
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "named"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_is_wrong_is_refused_by_name(included, method, path, body, named):
    answer = ask(included, method, path, body)
    assert answer.status == 400
    assert named in answer.json["message"]


def test_two_dictionaries_of_the_same_languages_are_refused(included):
    dictionary = {name: value for name, value in BODY.items() if name != "name"}
    answer = post(included, "/v3/glossaries", {"name": "a", "dictionaries": [dictionary] * 2})
    assert (answer.status, answer.json["message"]) == (400, "two dictionaries have the same languages")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "source_lang is missing"),
        ("?source_lang=en", "target_lang is missing"),
        ("?source_lang=en&target_lang=de&no_such=1", "there is no field no_such"),
    ],
)
def test_a_dictionary_is_named_by_two_languages_and_nothing_else(included, method, query, message):
    path = f"/v3/glossaries/x/{'entries' if method == 'GET' else 'dictionaries'}"
    answer = ask(included, method, path + query)
    assert (answer.status, answer.json["message"]) == (400, message)


def test_what_is_removed_has_an_answer_without_content(included):
    made = post(included, "/v2/glossaries", BODY).json["glossary_id"]
    for path in (f"{made}/dictionaries?source_lang=en&target_lang=de", made):
        answer = ask(included, "DELETE", f"/v3/glossaries/{path}")
        assert (answer.status, answer.content) == (204, b"")


def test_paths_that_are_no_operations_have_the_errors_of_the_dialect(included):
    for method, path, status in [
        ("GET", "/v3/none", 404),
        ("PUT", "/v3/glossaries/x", 405),
        ("GET", "/v2/glossaries/x/y/entries", 404),
        ("GET", "/v2/glossaries/entries", 404),
    ]:
        answer = ask(included, method, path)
        assert (answer.status, set(answer.json)) == (status, {"message", "detail"}), path


def test_a_server_with_a_folder_keeps_its_glossaries(serving, tmp_path):
    for again in (False, True):
        server = serving(glossaries=tmp_path)
        client = deepl.DeepLClient("any-key", server_url=server.url, send_platform_info=False)
        if not again:
            client.create_glossary("mine", "EN", "DE", STATION)
        [found] = client.list_glossaries()
        assert client.get_glossary_entries(found) == STATION
        client.close()


def test_a_text_of_many_different_terms_waits_for_places_of_the_queue(serving):
    server = serving(limits={"queue": QueueLimits(requests=16)})
    words = ["one", "two", "three", "four", "five"]
    numbers = [f"{one} {other}" for one in words[:4] for other in words]
    entries = "\n".join(f"{number}\t{place} X" for place, number in enumerate(numbers))
    made = post(server, "/v2/glossaries", {**BODY, "entries": entries}).json
    text = [f"I have {number} cats." for number in numbers]
    body = {"text": text, "source_lang": "EN", "target_lang": "DE", "glossary_id": made["glossary_id"]}
    answer = post(server, "/v2/translate", body)
    assert answer.status == 200, answer.content
    for place, each in enumerate(answer.json["translations"]):
        assert f"{place} X" in each["text"]


def test_a_model_that_searches_greedily_has_a_beam_for_what_is_required():
    model = ServedModel()
    greedy = model.answerer(AnswerSettings(task="translate", controls=Controls(beam_size=1)))
    assert greedy.requiring(()) == greedy.settings
    found = greedy.requiring((("Haltestelle",), ("rot", "Rot")))
    assert found.controls == Controls(must_contain=("Haltestelle", "rot|Rot"), beam_size=5)
    assert model.answerer(found).translator.settings.beam_size == 5
    own = model.answerer(AnswerSettings(task="translate"))
    assert own.requiring((("Haltestelle",),)).controls.beam_size is None
