"""Texts that a model cannot read are named: the first, and each that is largely unknown."""

import pytest

from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.verbs.classify import classify
from regard.verbs.embed import Embedder
from regard.verbs.serve import ServedModel
from regard.verbs.shared.answerer import AnswerSettings
from regard.verbs.shared.unknown_tokens import UnknownTokenWarnings
from regard.verbs.tag import tag
from regard.verbs.translate import Translator, translate

UNKNOWN = 1


@pytest.fixture
def warned(capsys):
    return lambda: capsys.readouterr().err.splitlines()


def test_the_first_text_with_an_unknown_token_is_named_by_its_counts(warned):
    texts = UnknownTokenWarnings(UNKNOWN)
    texts.warn("line 1", [4, 5, 6])
    assert warned() == []
    texts.warn("line 2", [4, 1, 5, 6, 7])
    [line] = warned()
    assert "line 2 has characters or words that the model does not know (1 of 5 tokens)" in line


@pytest.mark.parametrize(
    ("ids", "named"), [([1, 5, 6, 7], False), ([1, 5, 6], True), ([1], True), ([5], False), ([], False)]
)
def test_later_texts_are_named_from_a_third_of_unknown_tokens_on(warned, ids, named):
    texts = UnknownTokenWarnings(UNKNOWN)
    texts.warn("line 1", [1, 5])
    warned()
    texts.warn("line 2", ids)
    assert bool(warned()) is named


def test_many_texts_are_counted(warned):
    texts = UnknownTokenWarnings(UNKNOWN)
    for number in range(1, 100):
        texts.warn(f"line {number}", [1, 1])
    lines = warned()
    assert len(lines) == 10 + 3
    assert lines[9].endswith("later texts are counted")
    assert "80 texts so far, line 80 the last" in lines[-1]


@pytest.mark.parametrize(
    ("ids", "named"), [([1, 1, 6], True), ([1, 1, 5, 6], False), ([1], True), ([], False)]
)
def test_a_model_that_lacks_rare_words_names_texts_that_lack_most_words(warned, ids, named):
    texts = UnknownTokenWarnings(UNKNOWN, rare_words_unknown=True)
    for _ in range(2):
        texts.warn("line 1", ids)
        assert bool(warned()) is named


def test_what_is_usual_depends_on_the_kind_of_the_tokeniser(warned):
    texts = ["the cat sat on the mat"] * 2
    for kind, named in (("words", True), ("wordpunct", False)):
        tokenizer = train_tokenizer(texts, kind, TokenizerSettings(kind=kind))
        UnknownTokenWarnings.of(tokenizer).warn("line 1", tokenizer.encode("the cat sat on the sofa"))
        assert bool(warned()) is named


def test_training_of_wordpunct_has_unknown_words_unless_the_recipe_says_otherwise():
    texts = ["the cat sat on the mat", "the cat sat on the sofa"]
    ids = {
        (kind, count): train_tokenizer(
            texts, kind, TokenizerSettings(kind=kind, min_count=count)
        ).encode_batch(texts)
        for kind, count in (("wordpunct", None), ("wordpunct", 1), ("words", None))
    }
    unknown = {key: any(UNKNOWN in each for each in found) for key, found in ids.items()}
    assert unknown == {("wordpunct", None): True, ("wordpunct", 1): False, ("words", None): False}


def test_verbs_name_a_text_in_letters_that_the_model_never_saw(encoder_folder, warned):
    text, known = "Привет мир", "the cat"
    Embedder(model := encoder_folder("classification", ("a", "b"))).vector(text, "the query")
    assert any("the query has" in line and "unknown" in line for line in warned())
    classify([known, text], model=model)
    assert any("line 2 has" in line and "unknown" in line for line in warned())
    tag(text, model=encoder_folder("tokens", ("a", "b")))
    assert any(f"sentence {text!r} has" in line for line in warned())
    translate([known, text])
    assert any("line 2 has" in line and "unknown" in line for line in warned())


@pytest.mark.parametrize("task", ["translate", "embed", "classify"])
def test_a_server_does_not_warn_of_the_texts_of_its_clients(encoder_folder, warned, task):
    model = ServedModel(None if task == "translate" else encoder_folder("classification", ("a", "b")))
    answerer = model.answerer(AnswerSettings(task=task))
    if task == "translate":
        answerer.running().add("Привет мир", 0)
    else:
        answerer.answers(["Привет мир"], 0)
    assert warned() == []


def test_a_translator_says_once_that_it_does_not_know_a_letter(warned):
    translator = Translator()
    translator._sources.ids(["A ♥ is a letter that the model does not know."], [1])
    translator._sources.ids(["Here comes another ♥ and much else that it does know."], [2])
    [line] = warned()
    assert "line 1 has" in line
