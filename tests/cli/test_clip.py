"""`regard embed --images` and `regard classify --label`: one line for each image."""

import json

import numpy as np
import pytest
import torch

from regard.cli import run
from regard.errors import FolderError
from regard.verbs.classify_images import classify_images
from regard.verbs.embed_images import embed_images
from regard.verbs.serve import ServedModel
from tests.clip_folder import clip
from tests.test_docs_outputs import DOCS, alike
from tools.pages import COMMAND, parted

pytest.importorskip("transformers")
CAT, DOG = "a photo of a cat", "a photo of a dog"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a CLIP, its two towers alone, and `images.npz`."""
    place = tmp_path_factory.mktemp("clip")
    for name, kind in (("both", "both"), ("text", "text"), ("images", "images")):
        clip(place / name, kind)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 20, 15, 3), dtype=np.uint8)
    np.savez(place / "images.npz", images=pixels)
    return place


def printed(capsys, *arguments, code=0):
    assert run([*map(str, arguments)]) == code
    return capsys.readouterr()


def test_each_image_is_a_line_of_numbers(capsys, place):
    model, file = place / "both", place / "images.npz"
    lines = printed(capsys, "embed", "--images", file, "--model", model).out.splitlines()
    found = torch.tensor([[float(number) for number in line.split("\t")] for line in lines])
    torch.testing.assert_close(found, embed_images(file, model=model), rtol=0, atol=1e-6)
    records = printed(capsys, "embed", "--images", file, "--model", model, "--json").out.splitlines()
    assert [json.loads(each)["image"] for each in records] == [1, 2, 3, 4]
    assert len(json.loads(records[0])["vector"]) == 10


def test_images_are_ranked_by_a_text(capsys, place):
    arguments = ["embed", "--images", place / "images.npz", "--model", place / "both", "--similar-to", CAT]
    ranked = [line.split("\t") for line in printed(capsys, *arguments).out.splitlines()]
    assert sorted(image for _, image in ranked) == ["1", "2", "3", "4"]
    assert [float(each) for each, _ in ranked] == sorted((float(each) for each, _ in ranked), reverse=True)
    records = [json.loads(line) for line in printed(capsys, *arguments, "--json").out.splitlines()]
    assert [str(record["image"]) for record in records] == [image for _, image in ranked]


def test_images_are_classified_by_labels(capsys, place):
    model, file = place / "both", place / "images.npz"
    arguments = ["classify", "--input", file, "--model", model, "--label", CAT, "--label", DOG]
    lines = [line.split("\t") for line in printed(capsys, *arguments).out.splitlines()]
    assert [line[0] for line in lines] == classify_images(file, model=model, labels=[CAT, DOG])
    both = [line.split("\t") for line in printed(capsys, *arguments, "--top", "2").out.splitlines()]
    assert [line[0] for line in both] == ["1", "1", "2", "2", "3", "3", "4", "4"]
    assert float(both[0][2]) + float(both[1][2]) == pytest.approx(1, abs=2e-4)


def test_mistakes_are_one_error_and_one_hint(capsys, place, vision_folder, encoder_folder):
    file, both = ["--input", place / "images.npz"], ["--model", place / "both"]
    labels = ["--label", CAT, "--label", DOG]
    vision = vision_folder()
    texts = encoder_folder("classification", ("bad", "good"))
    asked = {
        "gets 0 labels": ["classify", *file, *both],
        "gets 1 labels": ["classify", *file, *both, "--label", CAT],
        "the label 'x' twice": ["classify", *file, *both, "--label", "x", "--label", "y", "--label", "x"],
        "there are no images": ["classify", *both, *labels],
        "no such file: a text": ["classify", "a text", *both, *labels],
        "not a model that classifies texts": ["classify", *both],
        "3 classes of its own": [
            *("classify", "--input", vision.parent / "images.npz", "--model", vision), *labels
        ],
        "this model classifies no images": ["classify", *file, "--model", texts, *labels],
        "answer lines of text": [
            *("classify", *file, *both, "--shard", "1/2", "--output", place / "out"), *labels
        ],
        "no text tower": ["classify", *file, "--model", place / "images", *labels],
        "no image tower": ["classify", *file, "--model", place / "text", *labels],
        "embeds images, and nothing else": ["embed", *file, "--images", place / "images.npz", *both],
        "no such file: x": ["embed", "--images", place / "images.npz", "x", *both],
        "is a file of lines": ["embed", *file, *both],
        "no such file": ["embed", "--images", place / "nothing.npz", *both],
        "`look` does not support image_text models": ["look", "x", *both],
        "image_text models cannot be exported to ONNX": [
            *("export", place / "both", "--to", "onnx", "--out", place / "out")
        ],
        "has no image_text models here": [
            *("export", place / "both", "--to", "ctranslate2", "--out", place / "out")
        ],
    }  # fmt: skip
    for words, arguments in asked.items():
        shown = printed(capsys, *arguments, code=2)
        *_, error, hint = shown.err.splitlines()
        assert words in error
        assert hint.startswith("hint: ")
        assert shown.out == ""


def test_it_cannot_be_served(place):
    with pytest.raises(FolderError, match="cannot be served") as refused:
        ServedModel(place / "both")
    assert "compares texts and images" in refused.value.hint


def test_no_task_trains_such_a_model(capsys, place, tmp_path):
    assert run(["convert", str(place / "both"), "--out", str(tmp_path / "ours")]) == 0
    digits = tmp_path / "digits.npz"
    np.savez(digits, images=np.zeros((20, 28, 28), np.uint8), labels=np.arange(20, dtype=np.uint8) % 10)
    files = [
        f"data.{part}.{kind}={digits}" for part in ("train", "valid", "test") for kind in ("images", "labels")
    ]
    sets = [argument for each in files for argument in ("--set", each)]
    for number, arguments in enumerate(
        (
            ["reverse", "--init", tmp_path / "ours"],
            ["reverse", "--set", "model.kind=image_text"],
            ["vit-mnist", "--init", tmp_path / "ours", *sets],
        )
    ):
        shown = printed(capsys, "train", *arguments, "--out", tmp_path / f"run-{number}", code=2)
        assert "no task trains" in shown.err


SHOWN = [
    (command, shown)
    for command, shown in COMMAND.findall((DOCS / "pretrained.md").read_text("utf-8"))
    if "tiny-clip" in command
]


def test_the_page_shows_what_these_commands_print(capsys, place, tmp_path, monkeypatch):
    assert len(SHOWN) == 3
    monkeypatch.chdir(tmp_path)
    assert run(["convert", str(place / "both"), "--out", "tiny-clip"]) == 0
    pixels = np.random.default_rng(0).integers(0, 256, (3, 20, 30, 3), dtype=np.uint8)
    np.savez("photos.npz", images=pixels)
    capsys.readouterr()
    for command, shown in SHOWN:
        assert alike(printed(capsys, *parted(command)[0]).out, shown), command
