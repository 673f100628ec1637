"""Translating by a glossary: the terms of each sentence are in its translation, all else is as without."""

import copy

import pytest

from regard.errors import ConfigError, DataError
from regard.verbs.generation.glossary import Dictionary
from regard.verbs.load import load
from regard.verbs.shards import translate_shard
from regard.verbs.translate import Translator, translate, translate_file

TEXTS = [
    "A man is standing at the station. Two dogs play!",
    "The dog runs.",
    "The snow is cold.",
    "A station",
    "Stations",
]
TERMS = {"station": "Haltestelle", "snow": "Milch", "no such": "Wort"}


@pytest.fixture
def glossary(tmp_path):
    file = tmp_path / "terms.tsv"
    file.write_text(Dictionary(TERMS).tsv() + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_term_is_in_the_translation_of_its_sentence_and_other_sentences_are_as_without(glossary, beam_size):
    plain = translate(TEXTS, beam_size=beam_size)
    found = translate(TEXTS, beam_size=beam_size, glossary=glossary)
    for place in (0, 3):
        assert "Haltestelle" in found[place]
    assert "Milch" in found[2]
    assert [found[place] for place in (1, 4)] == [plain[place] for place in (1, 4)]
    assert found[0].endswith(plain[0].split(". ")[1])
    assert found == [translate(text, beam_size=beam_size, glossary=glossary) for text in TEXTS]
    assert not any("! " in text or ". Halt" in text for text in found)  # before the final punctuation


def test_a_translation_that_has_its_term_is_not_said_again(tmp_path):
    (tmp_path / "terms.tsv").write_text("dog\tKöter\n", encoding="utf-8")
    found = translate(["I have a dog.", "The dog is big."], glossary=tmp_path / "terms.tsv")
    assert all("Köter" in text and text.count(".") == 1 for text in found)


def test_samples_without_a_term_are_as_without_a_glossary(glossary):
    settings = {"sample": True, "seed": 3, "split": "off"}
    plain, found = translate(TEXTS, **settings), translate(TEXTS, glossary=glossary, **settings)
    assert [found[place] for place in (1, 4)] == [plain[place] for place in (1, 4)]
    assert "Milch" in found[2]


def test_terms_add_to_what_is_required_and_every_line_is_counted(glossary, tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(TEXTS) + "\n")
    assert translate_file(source, output, glossary=str(glossary), must_contain=["Katze"]) == len(TEXTS)
    lines = output.read_text().splitlines()
    assert all("Katze" in line for line in lines)
    assert "Milch" in lines[2]
    done = []
    list(Translator(glossary=glossary)(TEXTS, done=done.append))
    assert sum(done) == len(TEXTS)


def test_a_copy_decodes_with_its_own_model(glossary):
    translator = Translator(load(None), glossary=glossary)
    other = copy.deepcopy(translator)
    for parameter in other.model.parameters():
        parameter.data.zero_()
    assert next(iter(translator(TEXTS[2:3]))).text != next(iter(other(TEXTS[2:3]))).text


def test_terms_are_found_in_what_the_user_wrote(tmp_path):
    file = tmp_path / "terms.tsv"
    file.write_text("SNOW\tMilch\n")
    loaded = load(None)
    translator = Translator(loaded, glossary=file)
    assert "Milch" in next(iter(translator(["THE SNOW IS COLD"]))).text
    assert "Milch" not in next(iter(translator(["The snow is cold."]))).text


def test_a_job_is_one_of_the_terms_that_its_first_process_had(glossary, tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "job"
    source.write_text("\n".join(TEXTS) + "\n")
    translate_shard(source, output, shard="1/2", glossary=glossary)
    moved = glossary.rename(tmp_path / "moved.tsv")
    translate_shard(source, output, shard="1/2", glossary=moved)
    moved.write_text(moved.read_text().replace("Milch", "Katze"))
    with pytest.raises(
        DataError, match=r"another job: glossary was '3 entries, sha256 .*', and is '3 entries"
    ):
        translate_shard(source, output, shard="2/2", glossary=moved)
    with pytest.raises(DataError, match=r"another job: glossary was '3 entries, sha256 .*', and is None"):
        translate_shard(source, output, shard="2/2")


@pytest.mark.parametrize(
    ("content", "settings", "named"),
    [
        ("snow\t\u4e16\n", {}, "no tokens for '\u4e16'"),
        ("snow\tMilch und Brot\n", {"max_new_tokens": 1}, "line 1: must_contain needs"),
        (
            "snow\tMilch\n",
            {"beam_size": 4, "beam_groups": 2, "diversity": 1.0},
            "groups take no required texts",
        ),
        ("snow\tMilch\n", {"engine": "ctranslate2"}, "glossary"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path, content, settings, named):
    file = tmp_path / "terms.tsv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=named):
        translate("The snow is cold.", glossary=file, **settings)


def test_a_sentence_for_which_nothing_is_found_is_translated_without_and_named(glossary, capsys, monkeypatch):
    monkeypatch.setattr("regard.verbs.generation.glossary_decoding.missing_text", lambda text, texts: "Milch")
    assert translate(TEXTS[1:3], glossary=glossary) == translate(TEXTS[1:3])
    assert "line 2: no translation with 'Milch' was found" in capsys.readouterr().err
