"""Classes of images, from files on disk to a scored model folder."""

import struct

import numpy as np
import pytest

from regard.errors import DataError, RecipeError
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import images
from regard.verbs.train import train
from regard.weights.model_folder import load_model

RECIPE = """
name = "bars"
[task]
kind = "images"
[data]
valid_share = 0.2
class_names = ["lying", "standing"]
[data.train]
images = "train-images"
labels = "train-labels"
[data.test]
images = "test-images"
labels = "test-labels"
[augmentation]
shift = 1.0
[model]
d_model = 16
num_heads = 2
d_ff = 32
num_layers = 1
patch_size = 2
dropout = 0.0
[batches]
batch_examples = 20
[training]
max_steps = 60
validate_every = 30
save_every = 30
best_metric = "accuracy"
[training.schedule]
learning_rate = 0.01
warmup_steps = 5
"""


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def bars(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A bright bar in the dark, lying or standing."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 60, (count, 8, 8), dtype=np.uint8)
    labels = generator.integers(0, 2, count, dtype=np.uint8)
    for picture, label, place in zip(pixels, labels, generator.integers(1, 7, count), strict=True):
        picture[(slice(None), place) if label else place] = 255
    return pixels, labels


@pytest.fixture
def folder(tmp_path):
    for part, count, seed in (("train", 200, 1), ("test", 50, 2)):
        pixels, labels = bars(count, seed)
        (tmp_path / f"{part}-images").write_bytes(idx(pixels))
        (tmp_path / f"{part}-labels").write_bytes(idx(labels))
    (tmp_path / "bars.toml").write_text(RECIPE)
    return tmp_path


def prepared(folder, run="run", limit=None, **data) -> images.ImageClassification:
    table = {
        "name": "bars",
        "task": {"kind": "images"},
        "data": {
            "train": {"images": "train-images", "labels": "train-labels"},
            "test": {"images": "test-images", "labels": "test-labels"},
            **data,
        },
        "model": {"preset": "mnist", "patch_size": 2},
    }
    source = recipe_from(table, "", folder, "bars.toml")
    return images.prepare(source, folder / run, say=lambda _: None, limit=limit)


def test_lying_and_standing_bars_are_classified(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = train("bars.toml", out="run", threads=1)
    assert result.metrics["accuracy"] >= 90
    best = load_model("run")
    assert best.labels == ("lying", "standing")
    assert (best.config.num_labels, best.config.image_size, best.config.channels) == (2, 8, 1)
    pixels, _ = bars(200, 1)
    assert best.config.pixel_mean == pytest.approx((pixels / 255).mean(), abs=0.01)
    assert "accuracy" in (folder / "run" / "best" / "README.md").read_text()


def test_a_dry_run_of_images_reads_all_and_keeps_some(folder):
    task = prepared(folder, limit=30)
    assert len(task.examples()) == 30
    (folder / "test-labels").write_bytes(idx(np.full(50, 9, np.uint8)))
    with pytest.raises(DataError, match="label 9, which no training image has"):
        prepared(folder, "another", limit=30)


def test_validation_images_are_held_out_of_each_class_and_never_trained_on(folder):
    task = prepared(folder, valid_share=0.25)
    examples = task.examples()
    trained = set(examples.batch(np.arange(len(examples)), 0).lines.tolist())
    valid = task._valid
    assert trained | set(valid.lines.tolist()) == set(range(1, 201))
    assert not trained & set(valid.lines.tolist())
    _, labels = bars(200, 1)
    shares = [(valid.labels == label).sum() / (labels == label).sum() for label in (0, 1)]
    assert shares == pytest.approx([0.25, 0.25], abs=0.02)


def test_classes_without_names_are_named_by_their_numbers(folder):
    assert prepared(folder).labels == ("0", "1")


def test_a_class_with_one_image_is_trained_on(folder):
    _, labels = bars(200, 1)
    labels[17] = 2
    (folder / "train-labels").write_bytes(idx(labels))
    task = prepared(folder)
    assert task.labels == ("0", "1", "2")
    examples = task.examples()
    assert 2 in examples.batch(np.arange(len(examples)), 0).labels


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        (np.full(200, 3, np.uint8), (), "all images have label 3"),
        (np.array([0] * 199 + [201], np.uint8), (), "a label is 201 among 200 images"),
        (np.array([0] * 199 + [2], np.uint8), ("a", "b"), "a label is 2, but data.class_names has 2"),
    ],
)
def test_labels_that_are_not_numbers_of_classes_are_refused(folder, labels, names, message):
    (folder / "train-labels").write_bytes(idx(labels))
    (folder / "test-labels").write_bytes(idx(labels[:50]))
    with pytest.raises(DataError, match=message):
        prepared(folder, class_names=list(names))


def test_test_images_of_another_size_are_refused(folder):
    (folder / "test-images").write_bytes(idx(np.zeros((50, 8, 6), np.uint8)))
    with pytest.raises(DataError, match="test-images: images of 8 x 6 pixels in 1 channels"):
        prepared(folder)


def test_a_run_does_not_resume_with_other_images(folder):
    prepared(folder)
    pixels, _ = bars(200, 3)
    (folder / "train-images").write_bytes(idx(pixels))
    with pytest.raises(Exception, match=r"data.train \(train-images\) has changed since this run began"):
        prepared(folder)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("data", "valid_share", 1.0, "data.valid_share must be between 0 and 1, not 1.0"),
        ("data", "class_names", ["a", "a"], "has a name twice"),
        ("training", "best_metric", "bleu", "validation does not measure"),
        ("model", "image_size", 28, "cannot be set in a recipe"),
    ],
)
def test_settings_that_a_recipe_may_not_have_are_refused(folder, section, key, value, message):
    table = {
        "name": "bars",
        "task": {"kind": "images"},
        "data": {"train": {"images": "train-images", "labels": "train-labels"}},
        "model": {"preset": "mnist", "patch_size": 2},
    }
    table[section] = {**table.get(section, {}), key: value}
    with pytest.raises(Exception, match=message) as refusal:
        images.prepare(recipe_from(table, "", folder, "x"), folder / "data", say=lambda _: None)
    assert refusal.value.hint
    assert isinstance(refusal.value, RecipeError) or section == "model"
