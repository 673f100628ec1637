import pytest

from regard.data.speech_languages import CODES, language_code


def test_names_are_those_of_transformers():
    whisper = pytest.importorskip("transformers.models.whisper.tokenization_whisper")
    assert CODES == whisper.TO_LANGUAGE_CODE


def test_a_language_has_one_code_however_it_is_given():
    assert {language_code(each) for each in ("de", "German", " <|de|> ")} == {"de"}
    assert language_code("haitian creole") == language_code("haitian") == "ht"
    assert language_code("klingon") == "klingon"
