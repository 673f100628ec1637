"""Laws of the box's training corpus: both sides hold the same names and numbers; a seed gives the same."""

import dataclasses
import random
import re
from pathlib import Path

import pytest

from regard.recipe import read_toml
from regard.verbs.shared.included_models import included_model
from regard.verbs.train import train
from regard.verbs.training_run import dry_run
from regard.verbs.translate import translate
from regard.weights.verified_folder import VerifiedFolder
from tools.box import pack
from tools.box_corpus.__main__ import STAGES, _pieces, cleaned, make_corpus, one_pass
from tools.box_corpus.captions import Captions
from tools.box_corpus.dictionary import aligned_dictionary
from tools.box_corpus.names import Names
from tools.box_corpus.templates import SLOT, Templates
from tools.box_corpus.variation import Variation

FOLDER = Path(__file__).parents[2] / "tools" / "box_corpus"
HELD_OUT = Path(__file__).parents[1] / "long" / "box_sentences.tsv"
TATOEBA = [
    ("Tom's dog bit Mary in Boston.", "Toms Hund hat Maria in Boston gebissen."),
    ("I have 300 books and 25 pens.", "Ich habe 300 Bücher und 25 Stifte."),
    ("It's 2:30.", "Es ist 2:30 Uhr."),
]


@pytest.fixture
def draw():
    return random.Random(5)


@pytest.fixture
def names(draw):
    return Names.load(draw)


@pytest.fixture
def spliced(draw):
    """Names of parts of words, and streets of nouns, as in the last stage."""
    words = {"words": ("harbour", "winter", "quick"), "nouns": ("Hund", "Turm")}
    return Names.load(draw, share_made=0.9, share_spliced=1.0, **words)


def digits(text):
    return sorted(re.findall(r"\d", text))


def test_a_template_has_the_same_slots_on_both_sides(names, draw):
    templates = Templates.load(names, draw, STAGES[4].files)
    assert len(templates.pairs) > 400
    for source, target in templates.pairs:
        english, german = ({at[0].replace("colore", "color") for at in SLOT.finditer(side)}
                           for side in (source, target))  # fmt: skip
        assert english == german, source


def test_what_fills_a_template_stands_on_both_sides(names, draw):
    templates = Templates.load(names, draw, STAGES[4].files)
    for source, target in templates.pairs:
        for _ in range(5):
            english, german = templates.filled(source, target)
            assert "{" not in english + german
            if "timepm" not in source:
                assert digits(english) == digits(german), (english, german)
            if "{full}" in source:
                assert any(name in german for name in re.findall(r"\w{3,}", english))


def test_made_names_are_parts_of_two_words_and_sites_are_whole_ones(spliced, draw):
    templates = Templates.load(spliced, draw, STAGES[4].files)
    made = {spliced.made() for _ in range(200)}
    assert len(made) > 30
    assert all(re.fullmatch(r"(ha|wi|qu)[a-z]*(ur|er|ck)", name.lower()) for name in made)
    urls = [templates.filled("{url}", "{url}")[0] for _ in range(200)]
    assert any("winter.de" in url for url in urls)
    addresses = [templates.filled("{deaddress}", "{deaddress}")[0] for _ in range(200)]
    assert any(re.match(r"Turm(straße|allee|weg|gasse|platz|ring) \d", address) for address in addresses)


def test_any_pieces_of_the_vocabulary_make_a_name(draw):
    pieces = _pieces()
    assert min(map(len, pieces.values())) > 500
    made = Names.load(draw, share_made=1.0, share_spliced=1.0, words=("quick",), **pieces)
    starts = {made.pieced()[:2] for _ in range(2000)}
    assert len(starts) > 150
    assert all(re.fullmatch(r"[A-Z][a-z]+", made.pieced()) for _ in range(100))


def test_names_cities_and_numbers_are_exchanged_on_both_sides(names, draw):
    varied = Variation(names, draw)
    drawn = [varied.exchanged(pair) for _ in range(100) for pair in TATOEBA]
    assert len(set(drawn)) > 100
    for english, german in drawn:
        assert digits(english) == digits(german)
        for owner in re.findall(r"^(.+)'s dog", english):
            assert f"{owner}s Hund" in german
        for city in re.findall(r" in (\w+)\.", english):
            assert f"in {city} " in german


def test_german_is_answered_in_ordinary_spelling(names, draw):
    varied = Variation(names, draw)
    drawn = {varied.written(TATOEBA[1]) for _ in range(500)}
    sources = {source for source, _ in drawn}
    assert TATOEBA[1][0].upper() in sources
    assert TATOEBA[1][0].lower() in sources
    assert {target.rstrip(".!") for _, target in drawn} == {TATOEBA[1][1].rstrip(".")}


def test_a_pass_has_every_pair_once_and_long_ones_twice_in_an_odd_pass(names, draw):
    long = "a long sentence of more than ten words stands here twice in all"
    pairs = [(f"{word} x", f"{word} y") for word in ("one", "two", "three", "four", "five")]
    pairs.append((long, "lang"))
    varied = Variation(names, random.Random(0))
    for number, times in ((0, 1), (1, 2)):
        lines = " ".join(target for _, target in one_pass(pairs, varied, draw, number))
        assert lines.count("lang") == times
        assert lines.count(" y") == 5


def test_captions_are_whole_sentences(draw):
    captions = Captions.load(draw)
    for english, german in (captions.pair() for _ in range(500)):
        for side in (english, german):
            assert re.fullmatch(r"[A-ZÄÖÜ][^{}=~]*\.", side), side
            assert "  " not in side
            assert " ." not in side


def test_a_dictionary_comes_out_of_sentences():
    nouns = [("dog", "Hund"), ("cat", "Katze"), ("bird", "Vogel"), ("horse", "Pferd")]
    verbs = [("sees", "sieht"), ("hears", "hört"), ("finds", "findet")]
    pairs = [
        (f"The {noun} {verb} him.", f"Er sagt, {subject} {does} ihn.")
        for noun, subject in nouns
        for verb, does in verbs
    ]
    assert set(nouns + verbs) <= set(aligned_dictionary(pairs))


CORPUS_OF = {1: 1, 2: 2, 3: 2, 4: 3, 5: 4, 6: 5}  # which corpus a stage of the training reads


@pytest.mark.parametrize(
    "number", [*(pytest.param(each, marks=pytest.mark.nightly) for each in range(1, 6)), 6]
)
def test_a_stage_gives_the_same_files_and_its_recipe_trains_on_them(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dry_run, "UPDATES", 1)  # it times up to twenty
    corpus = CORPUS_OF[number]
    stage = dataclasses.replace(STAGES[corpus], passes=2, templates=100, captions=40)
    for folder in ("one", "two"):
        make_corpus(TATOEBA * 20, tmp_path / folder, stage)
    for name in ("train.en", "train.de"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    (tmp_path / "held.en").write_text("I have 12 books.\n", "utf-8")
    (tmp_path / "held.de").write_text("Ich habe 12 Bücher.\n", "utf-8")
    files = {
        f"{part}.{side}": f"{folder}.{suffix}"
        for part, folder in (("train", "one/train"), ("valid", "held"), ("test", "held"))
        for side, suffix in (("source", "en"), ("target", "de"))
    }
    overrides = [f"data.{key}={tmp_path / file}" for key, file in files.items()]
    overrides.append("batches.batch_tokens=128")
    recipe = FOLDER / f"stage-{number}.toml"
    assert read_toml(recipe)[0]["data"]["train"]["source"] == f"../../runs/box-corpus-{corpus}/train.en"
    if number == 1:
        result = train(recipe, overrides=[*overrides, "tokenizer.vocab_size=400"], dry_run=True)
    else:
        result = train(recipe, overrides=overrides, init=included_model(), dry_run=True)
    assert result.metrics["loss"] > 0


def test_a_packed_model_is_half_as_large_and_says_the_same(untrained, tmp_path):
    pack(VerifiedFolder.open(untrained), tmp_path / "box")
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (untrained, tmp_path / "box")]
    assert sizes[1] < 0.7 * sizes[0]
    outputs = [
        translate(["1 2 3", "4 5"], model=folder, device="cpu") for folder in (untrained, tmp_path / "box")
    ]
    assert outputs[0] == outputs[1]


def test_quotes_and_spaces_of_the_corpus_are_made_plain():
    assert cleaned("He said: \u00a0no.", 'Er sagte: "Nein\u00ad."') == ("He said:  no.", "Er sagte: „Nein.“")


def test_what_the_check_asks_for_is_not_trained_on(names, draw):
    templates = {
        re.sub(r"\{\w+\}", "", source) for source, _ in Templates.load(names, draw, STAGES[4].files).pairs
    }
    known = {word for one in names.lists.values() for word in one}
    for line in HELD_OUT.read_text("utf-8").splitlines():
        kind, sentence, *wanted = line.split("\t")
        bare = sentence
        for one in wanted:
            bare = bare.replace(one.split("|")[0], "")
        assert bare not in templates, sentence
        if kind == "name":
            assert known.isdisjoint(wanted), sentence
