"""`regard classify`, `embed`, `look` and `plot` read photographs; each line of output names its file."""

import json
import sys

import numpy as np
import pytest

from regard.cli import run
from tests.clip_folder import clip

pillow = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with `clip`, two photographs, and another within `more`."""
    place = tmp_path_factory.mktemp("place")
    clip(place / "clip")
    (place / "more").mkdir()
    for number, name in enumerate(("cat.jpg", "dog.png", "more/fox.jpg")):
        pixels = np.random.default_rng(number).integers(0, 256, (31 + number, 40, 3), dtype=np.uint8)
        pillow.fromarray(pixels).save(place / name)
    return place


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)


def printed(capsys, *arguments, code=0):
    assert run([*map(str, arguments)]) == code
    return capsys.readouterr()


def table(capsys, *arguments):
    return [line.split("\t") for line in printed(capsys, *arguments).out.splitlines()]


def test_photos_are_classified_by_a_vision_model(capsys, vision_folder):
    model = vision_folder()
    lines = table(capsys, "classify", "cat.jpg", "more", "dog.png", "--model", model)
    assert [line[0] for line in lines] == ["cat.jpg", "more/fox.jpg", "dog.png"]
    assert {line[1] for line in lines} <= {"cat", "dog", "fish"}
    assert all(0 < float(line[2]) <= 1 for line in lines)
    assert table(capsys, "classify", "--input", "more", "--model", model) == [lines[1]]
    ranked = table(capsys, "classify", "cat.jpg", "--top", 3, "--model", model)
    assert [line[0] for line in ranked] == ["cat.jpg"] * 3
    answer = json.loads(printed(capsys, "classify", "cat.jpg", "--json", "--model", model).out)
    assert (answer["line"], answer["file"], answer["label"]) == (1, "cat.jpg", lines[0][1])
    assert "text" not in answer


def test_photos_are_classified_by_texts(capsys):
    lines = table(
        capsys, "classify", "--label", "a cat", "--label", "a dog", "cat.jpg", "dog.png", "--model", "clip"
    )
    assert [line[0] for line in lines] == ["cat.jpg", "dog.png"]
    assert {line[1] for line in lines} <= {"a cat", "a dog"}


def test_photos_are_embedded_and_ranked(capsys):
    lines = table(capsys, "embed", "--images", "cat.jpg", "more", "--model", "clip")
    assert [line[0] for line in lines] == ["cat.jpg", "more/fox.jpg"]
    assert [len(line) for line in lines] == [11, 11]
    several = table(capsys, "embed", "--images", "cat.jpg", "--images", "more", "--model", "clip")
    assert several == lines
    ranked = table(capsys, "embed", "--images", ".", "--similar-to", "a cat", "--model", "clip")
    assert sorted(line[1] for line in ranked) == ["cat.jpg", "dog.png", "more/fox.jpg"]
    assert [float(line[0]) for line in ranked] == sorted((float(line[0]) for line in ranked), reverse=True)
    answer = json.loads(printed(capsys, "embed", "--images", "cat.jpg", "--json", "--model", "clip").out)
    assert (answer["image"], answer["file"], len(answer["vector"])) == (1, "cat.jpg", 10)


def test_several_texts_are_classified_as_before(capsys, encoder_folder):
    model = encoder_folder("classification", ("bad", "good"))
    both = printed(capsys, "classify", "a film", "a book", "--model", model).out
    alone = [printed(capsys, "classify", text, "--model", model).out for text in ("a film", "a book")]
    assert both == "".join(alone)


def test_a_photo_is_looked_at_and_plotted(capsys, vision_folder, tmp_path):
    model = vision_folder()
    shown = printed(capsys, "look", "cat.jpg", "--model", model, "--text").out
    assert "label\t" in shown
    pytest.importorskip("matplotlib")
    figure = tmp_path / "attention.svg"
    printed(capsys, "plot", "attention", "cat.jpg", "--model", model, "--out", figure)
    assert figure.stat().st_size > 1000


def test_mistakes_are_one_error_and_one_hint(capsys, vision_folder, monkeypatch):
    model, both = ["--model", vision_folder()], ["--model", "clip"]
    with open("text.jpg", "w") as file:
        file.write("no image")
    asked = {
        "text.jpg: not a PNG": ["classify", "cat.jpg", "text.jpg", *model],
        "no such file: nothing.jpg": ["classify", "nothing.jpg", *model],
        "cat.jpg is an image file, and texts are embedded": ["embed", "cat.jpg", *both],
        "3 classes of its own": ["classify", "cat.jpg", "--label", "a", "--label", "b", *model],
        "gets 0 labels": ["classify", "cat.jpg", *both],
        "embeds images, and nothing else": ["embed", "--images", "cat.jpg", "--input", "x", *both],
        "both TEXT and --input": ["classify", "cat.jpg", "--input", "dog.png", *model],
    }
    for words, arguments in asked.items():
        shown = printed(capsys, *arguments, code=2)
        *_, error, hint = shown.err.splitlines()
        assert words in error
        assert hint.startswith("hint: ")
    monkeypatch.setitem(sys.modules, "PIL", None)
    shown = printed(capsys, "classify", "cat.jpg", *model, code=2).err
    assert "needs Pillow, which is not installed" in shown
    assert "pip install 'regard[images]'" in shown
