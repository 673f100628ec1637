"""The included model: small, complete, with its card; and the error if it is missing."""

import itertools
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from regard.data.catalogue import find_file
from regard.data.files import read_lines
from regard.errors import DataError, FolderError
from regard.fast.native import kernels
from regard.verbs.convert import convert
from regard.verbs.generation.translations import output_lines
from regard.verbs.load import load
from regard.verbs.shared import included_models as box
from regard.verbs.shared.included_models import included_model, included_models
from regard.verbs.shared.model_loading import model_path
from regard.verbs.shared.settings import recipe_from, with_init
from regard.verbs.training_run.initial_model import _start
from regard.verbs.translate import Translator, translate
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import verify_folder

MOST = 16_000_000  # bytes


def test_the_included_model_is_small_complete_and_has_a_card():
    path = included_model()
    verify_folder(path)
    assert sum(file.stat().st_size for file in path.iterdir()) <= MOST
    card = (path / "README.md").read_text("utf-8")
    assert "Tatoeba" in card
    assert "CC BY 2.0" in card
    assert "BLEU" in card
    assert "Bahnhof" in translate("Where is the station?")


@pytest.fixture(scope="module")
def german():
    """Translates by the included model."""
    translator = Translator(workers=1)
    return lambda text: next(iter(translator([text]))).text


EVERYDAY = {
    "Good morning, how are you today?": "Guten Morgen, wie geht es",
    "hi": "Hallo",
    "My name is Anna.": "Ich heiße Anna",
    "12 apples": "12 Äpfel",
    "allergy": "Allergie",
    "THANK YOU VERY MUCH.": "Vielen Dank",
    "where is the station": "Wo ist der Bahnhof",
    "I don’t know. Can you help me?": "Ich weiß",
}


@pytest.mark.parametrize("sentence", EVERYDAY)
def test_everyday_sentences_come_out_right(sentence, german):
    assert EVERYDAY[sentence] in german(sentence)


COPIED = {  # numbers and times: of unseen names six of ten come out right (tests/long/box_check.py)
    "My name is Anna Becker.": ("Anna", "Becker"),
    "He read 268 pages in one day.": ("268",),
    "This cheese costs $61.24.": ("61,24",),
    "The ferry leaves at 8:23.": ("8:23",),
    "The library is open from 10:29 to 15:25.": ("10:29", "15:25"),
    "They got married on December 5, 2011.": ("5. Dezember", "2011"),
    "The company has 65,262 employees.": ("65.262",),
    "You can call her at 364-768-6620.": ("364-768-6620",),
}


@pytest.mark.parametrize("sentence", COPIED)
def test_names_and_numbers_are_copied(sentence, german):
    found = german(sentence)
    assert [part for part in COPIED[sentence] if part not in found] == []


@pytest.mark.parametrize(
    "word", ["thermometer", "digital", "allergy", "months", "voyage", "logic", "holding"]
)
def test_a_single_word_does_not_loop(word, german):
    found = german(word)
    assert len(found) < 3 * len(word) + 15
    assert re.search(r"(\S.{1,20}?)(?:[\s,.-]*\1){2,}", found) is None


def test_an_installation_without_the_included_model_gives_a_hint(tmp_path, monkeypatch):
    monkeypatch.setattr(box.resources, "files", lambda package: tmp_path)
    with pytest.raises(FolderError) as caught:
        translate("Hello.")
    assert "--model" in caught.value.hint


def test_the_included_model_is_named_like_a_folder_and_a_folder_of_that_name_wins(
    tmp_path, monkeypatch, untrained
):
    monkeypatch.chdir(tmp_path)
    assert included_models() == ["en-de"]
    assert model_path("en-de") == model_path(Path("en-de")) == included_model()
    assert translate("Hello.", model="en-de") == translate("Hello.")
    shutil.copytree(untrained, "en-de")
    assert model_path("en-de") == Path("en-de")
    assert translate("1 2", model="en-de") == translate("1 2", model=untrained)


def test_every_verb_that_takes_a_model_takes_the_included_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load("en-de").path == included_model()
    table = pairs("copy", model={"init": "en-de"})
    settings = json.loads((included_model() / "config.json").read_text())["settings"]
    assert settings["d_model"] == loaded_width(table)
    assert with_init(table, "en-de")["model"]["init"] == str(included_model())
    with pytest.raises(FolderError, match=r"en-de.* is not a |box.en-de"):
        convert("en-de", out="there")  # it is found, and needs no conversion


@pytest.mark.parametrize("given", ["absent", "en_de", Path("runs/absent"), "~/absent"])
def test_a_missing_model_is_reported_with_the_included_ones(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for call in (load, lambda name: with_init({}, name), lambda name: convert(name, out="there")):
        with pytest.raises(FolderError, match=r"(absent|en_de) does not exist") as caught:
            call(given)
        assert "en-de" in caught.value.hint


def loaded_width(table):
    """The width of the model that a run by this recipe begins with."""
    start = _start(recipe_from(table, "", Path(), "recipe"), RunFolder(Path("run")), resumes=False)
    assert start is not None
    return start.settings["d_model"]


def pairs(kind, **table):
    corpus = {"synthetic": kind, "size": 60, "length": 5}
    return {
        "name": "small",
        "data": {"train": corpus, "valid": corpus},
        "tokenizer": {"kind": "words"},
        **table,
    }


EXACT = kernels.available() or (
    torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"
)
SPOKEN = """Where is the station?
A man is sleeping.
Two dogs run across the wet grass.
I do not know what you mean.
She has been living in Berlin for three years.
The children are playing in the garden.
Can you help me with this letter?
He bought a new car last week.
It is raining, so we stay at home.
My brother works in a hospital.
Nobody told us that the shop was closed.
Tom drinks too much coffee.""".splitlines()


def lines_to_translate():
    """A slice of Multi30k's test set, or sentences like it; an empty line and one of 200 words among them."""
    try:
        lines = list(itertools.islice(read_lines(find_file("multi30k:test_2016_flickr.en")), 12))
    except DataError:
        lines = SPOKEN
    words = " ".join(lines).split()
    return [*lines[:5], "", *lines[5:], " ".join((words * 20)[:200])]


@pytest.mark.parametrize("beam_size", [1, 5])
def test_every_batch_size_gives_the_same_bytes_also_with_an_empty_and_a_long_line(beam_size):
    lines = lines_to_translate()
    found = [
        list(Translator(beam_size=beam_size, batch_tokens=budget, device="cpu")(lines))
        for budget in (64, 700, 8192)
    ]
    assert len({each.text for each in found[0]}) > 10, "translations differ, so their order is seen"
    assert found[0][5].text == ""
    for other in found[1:]:
        if EXACT:
            assert [output_lines(each, as_json=True) for each in other] == [
                output_lines(each, as_json=True) for each in found[0]
            ]
        for one, two in zip(found[0], other, strict=True):
            # the score is the mean over tokens: where the bits differ, only near ties may change
            assert abs(one.candidates[0].score - two.candidates[0].score) < 1e-4
