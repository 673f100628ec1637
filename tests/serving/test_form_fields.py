"""The described fields of forms: those that may be set, each with its own values."""

from regard.serving.dialects import deepl, openai_audio
from regard.serving.form_fields import FORMS, MULTIPART, TEXT, TEXTS, URLENCODED


def schema_of(path):
    content = FORMS[path].content()
    return content, next(iter(content.values()))["schema"]


def test_fields_that_are_refused_are_not_described():
    for path, names in (("/v2/translate", deepl.FIELDS), ("/v2/document", deepl.DOCUMENT_FIELDS)):
        assert [*FORMS[path].names] == [name for name in names if name not in deepl.IMPOSSIBLE]
        assert set(FORMS[path].names) < set(names)
    described = FORMS[openai_audio.TRANSCRIPTIONS].names
    assert [*described] == ["file", "model", "response_format", "language", openai_audio.GRANULARITIES]
    assert [*FORMS[openai_audio.TRANSLATIONS].names] == ["file", "model", "response_format"]


def test_a_form_with_a_file_has_parts_and_another_comes_in_three_ways():
    content, schema = schema_of("/translate_file")
    assert list(content) == [MULTIPART]
    assert content[MULTIPART]["encoding"]["file"]["contentType"] == "text/plain"
    assert schema["required"] == ["file", "source", "target"]
    content, schema = schema_of("/translate")
    assert list(content) == ["application/json", URLENCODED, MULTIPART]
    assert schema["additionalProperties"] is False
    assert (schema["properties"]["q"], schema["properties"]["api_key"]) == (TEXTS, TEXT)
    assert schema["properties"]["alternatives"]["minimum"] == 0
    sounds = FORMS[openai_audio.TRANSCRIPTIONS].content()[MULTIPART]["encoding"]["file"]
    assert "audio/wav" in sounds["contentType"]


def test_a_glossary_needs_all_but_the_format_of_its_entries():
    _, schema = schema_of("/v2/glossaries")
    assert set(schema["properties"]) - set(schema["required"]) == {"entries_format"}
