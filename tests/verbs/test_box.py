"""The model in the box: small, whole, with its card; and an answer where there is none."""

import itertools
import re

import pytest
import torch

from regard.data.catalogue import find
from regard.data.corpus import read_lines
from regard.errors import DataError, FolderError
from regard.native import kernels
from regard.verbs import box
from regard.verbs.box import box_model
from regard.verbs.translate import Translator, printed, translate
from regard.weights.folder import verify_folder

MOST = 16_000_000  # bytes


def test_the_box_holds_a_small_whole_model_that_says_where_it_comes_from():
    path = box_model()
    verify_folder(path)
    assert sum(file.stat().st_size for file in path.iterdir()) <= MOST
    card = (path / "README.md").read_text("utf-8")
    assert "Tatoeba" in card
    assert "CC BY 2.0" in card
    assert "BLEU" in card
    assert "Bahnhof" in translate("Where is the station?")


EVERYDAY = {
    "Good morning, how are you today?": "Guten Morgen, wie geht es",
    "hi": "Hallo",
    "My name is Anna.": "Ich heiße Anna",
    "12 apples for $3.75": "12 Äpfel für 3,75 Dollar",
    "allergy": "Allergie",
    "THANK YOU VERY MUCH.": "Danke",
    "where is the station": "Wo ist der Bahnhof",
    "I don’t know. Can you help me?": "Ich weiß es nicht.",
}


@pytest.mark.parametrize("sentence", EVERYDAY)
def test_everyday_sentences_come_out_right(sentence):
    assert EVERYDAY[sentence] in translate(sentence)


COPIED = {
    "Our new neighbor is Katinka Vandenberg.": ("Katinka", "Vandenberg"),
    "Saoirse moved to Swansea last year.": ("Saoirse", "Swansea"),
    "He read 268 pages in one day.": ("268",),
    "This cheese costs $61.24.": ("61,24",),
    "The ferry leaves at 8:23.": ("8:23",),
    "She moved to 72 Marlborough Road.": ("Marlborough Road", "72"),
    "His email address is imogen.abernathy@northwind.io.": ("imogen.abernathy@northwind.io",),
    "You can call her at 364-768-6620.": ("364-768-6620",),
}


@pytest.mark.parametrize("sentence", COPIED)
def test_names_and_numbers_are_copied(sentence):
    german = translate(sentence)
    assert [part for part in COPIED[sentence] if part not in german] == []


@pytest.mark.parametrize(
    "word", ["thermometer", "digital", "allergy", "months", "voyage", "logic", "holding"]
)
def test_a_single_word_does_not_loop(word):
    german = translate(word)
    assert len(german) < 3 * len(word) + 15
    assert re.search(r"(\S.{1,20}?)(?:[\s,.-]*\1){2,}", german) is None


def test_an_installation_without_a_box_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(box.resources, "files", lambda package: tmp_path)
    with pytest.raises(FolderError) as caught:
        translate("Hello.")
    assert "--model" in caught.value.hint


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
        lines = list(itertools.islice(read_lines(find("multi30k:test_2016_flickr.en")), 12))
    except DataError:
        lines = SPOKEN
    words = " ".join(lines).split()
    return [*lines[:5], "", *lines[5:], " ".join((words * 20)[:200])]


@pytest.mark.parametrize("beam_size", [1, 5])
def test_every_budget_gives_the_same_bytes_beside_an_empty_and_a_long_line(beam_size):
    lines = lines_to_translate()
    found = [
        list(Translator(beam_size=beam_size, batch_tokens=budget, device="cpu")(lines))
        for budget in (64, 700, 8192)
    ]
    assert len({each.text for each in found[0]}) > 10, "translations differ, so their order is seen"
    assert found[0][5].text == ""
    for other in found[1:]:
        if EXACT:
            assert [printed(each, as_json=True) for each in other] == [
                printed(each, as_json=True) for each in found[0]
            ]
        for one, two in zip(found[0], other, strict=True):
            # the score is the mean over tokens: where the bits differ, only near ties may change
            assert abs(one.candidates[0].score - two.candidates[0].score) < 1e-4
