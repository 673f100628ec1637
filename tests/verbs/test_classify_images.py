"""Images are classified by a model folder: from files, from arrays, alone and together."""

import struct

import numpy as np
import pytest
import torch

from regard.cli import run
from regard.data import files
from regard.data.resizing import resized
from regard.errors import DataError, FolderError, UserError
from regard.models.build import build_model
from regard.models.vision import VisionConfig
from regard.verbs.classify_images import ImageClassifier, classify_images
from regard.weights.folder import write_folder
from regard.weights.model_folder import model_files
from regard.weights.tensors import model_tensors
from tests.clip_folder import clip

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 1, 6, 6), dtype=np.uint8)


def write(folder, labels=("cat", "dog", "fish"), **settings):
    small = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_layers": 1, "channels": 1}
    config = VisionConfig(num_labels=3, image_size=6, patch_size=3, **{**small, **settings})
    files = model_files(config, labels, {}, 'name = "animals"\n')
    weights = model_tensors(build_model(config, seed=3))
    write_folder(folder, {**files, "model.safetensors": weights, "README.md": b"# animals\n"})
    return folder


@pytest.fixture(scope="module")
def animals(tmp_path_factory):
    return write(tmp_path_factory.mktemp("models") / "animals")


def test_each_image_gets_its_class(animals):
    found = list(ImageClassifier(animals, top=3)(PIXELS))
    assert [each.line for each in found] == [1, 2, 3, 4, 5]
    for each in found:
        assert {candidate.label for candidate in each.candidates} == {"cat", "dog", "fish"}
        assert sum(candidate.probability for candidate in each.candidates) == pytest.approx(1)
        assert each.probability == max(candidate.probability for candidate in each.candidates)
    assert classify_images(PIXELS, model=animals) == [each.label for each in found]
    assert classify_images(PIXELS, model=animals, top=2)[4] == [
        (candidate.label, candidate.probability) for candidate in found[4].candidates[:2]
    ]


def test_an_image_s_class_does_not_depend_on_its_batch(animals):
    together = [each.probability for each in ImageClassifier(animals)(PIXELS)]
    alone = [next(ImageClassifier(animals)(PIXELS[[row]])).probability for row in range(5)]
    assert alone == pytest.approx(together, abs=1e-6)


def test_a_file_is_read_as_an_array_is(animals, tmp_path):
    (tmp_path / "images").write_bytes(struct.pack(">HBB3I", 0, 8, 3, 5, 6, 6) + PIXELS.tobytes())
    assert classify_images(tmp_path / "images", model=animals) == classify_images(PIXELS, model=animals)


def test_a_file_may_be_one_of_a_data_set(animals, tmp_path, monkeypatch, capsys):
    (tmp_path / "images").write_bytes(struct.pack(">HBB3I", 0, 8, 3, 5, 6, 6) + PIXELS.tobytes())
    monkeypatch.setattr(files, "find_file", lambda spec: tmp_path / "images")
    assert run(["classify", "--model", str(animals), "--input", "mnist:t10k-images-idx3-ubyte.gz"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == classify_images(PIXELS, model=animals)
    with pytest.raises(DataError, match="no such file"):
        classify_images(tmp_path / "nothing", model=animals)


def test_images_of_another_size_are_resized_as_the_model_s_config_says(animals, tmp_path):
    small = np.random.default_rng(1).integers(0, 256, (1, 1, 4, 5), dtype=np.uint8)
    fitted = resized(small[0], 6, 6, "bilinear")[None]
    assert classify_images(small, model=animals, top=3) == classify_images(fitted, model=animals, top=3)
    (tmp_path / "images").write_bytes(struct.pack(">HBB3I", 0, 8, 3, 1, 4, 4) + bytes(16))
    strict = write(tmp_path / "strict", resizing=None)
    with pytest.raises(DataError, match="images of 4 x 4 pixels in 1 channels, but the model reads 6 x 6"):
        classify_images(tmp_path / "images", model=strict)


def test_a_model_of_something_else_is_refused(untrained):
    with pytest.raises(FolderError, match="not a model that classifies images"):
        ImageClassifier(untrained)


def test_labels_that_are_not_the_models_are_refused(tmp_path):
    with pytest.raises(FolderError, match="2 labels for 3 classes"):
        ImageClassifier(write(tmp_path / "animals", labels=("cat", "dog")))


def test_the_shell_reads_images_from_a_file(animals, tmp_path, capsys):
    (tmp_path / "images").write_bytes(struct.pack(">HBB3I", 0, 8, 3, 5, 6, 6) + PIXELS.tobytes())
    assert run(["classify", "--model", str(animals), "--input", str(tmp_path / "images")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == classify_images(PIXELS, model=animals)
    assert run(["classify", "--model", str(animals), "a text"]) == 2
    assert "no such file: a text" in capsys.readouterr().err


@pytest.mark.parametrize("count", [2, 5])
def test_labels_that_are_texts_have_the_probabilities_of_transformers(tmp_path, count):
    from transformers import CLIPTokenizer
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    theirs = clip(tmp_path)
    labels = ["a photo of a cat", "a photo of a dog", "A Dog", "12", "a photo of nothing at all"][:count]
    images = np.random.default_rng(1).integers(0, 256, (3, 3, 25, 19), dtype=np.uint8)
    texts = CLIPTokenizer.from_pretrained(tmp_path)(
        labels, padding=True, truncation=True, max_length=11, return_tensors="pt"
    )
    pixels = CLIPImageProcessorPil.from_pretrained(tmp_path)(
        images=list(images), input_data_format="channels_first", return_tensors="pt"
    )
    with torch.no_grad():
        shares = theirs(**texts, **pixels).logits_per_image.softmax(dim=1)
    found = classify_images(images, model=tmp_path, labels=labels, top=count, device="cpu")
    for each, expected in zip(found, shares, strict=True):
        assert [dict(each)[label] for label in labels] == pytest.approx(expected.tolist(), abs=1e-5)
        assert [share for _, share in each] == sorted((share for _, share in each), reverse=True)


def test_labels_are_for_models_without_classes(animals, tmp_path):
    clip(tmp_path)
    with pytest.raises(UserError, match="has 3 classes of its own"):
        ImageClassifier(animals, labels=["a", "b"])
    with pytest.raises(UserError, match="gets 1 labels"):
        ImageClassifier(tmp_path, labels=["a photo of a cat"])
    with pytest.raises(UserError, match="labels must be a list"):
        ImageClassifier(tmp_path, labels="a photo of a cat")
    assert ImageClassifier(tmp_path, labels=["a", "b"]).labels == ("a", "b")
    assert ImageClassifier(animals).labels == ("cat", "dog", "fish")
