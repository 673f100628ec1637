"""Classes of photographs: from a folder to a model folder that reads photographs of any size."""

import shutil

import numpy as np
import pytest
import torch

from regard.errors import DataError, FolderError, RecipeError
from regard.verbs.classify_images import classify_images
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import images
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import load_model
from regard.weights.tensors import model_tensors
from tests.verbs.tasks.test_images import bars

pillow = pytest.importorskip("PIL.Image")
CLASSES = "lying", "standing"
RECIPE = """
name = "photos"
[task]
kind = "images"
[data]
valid_share = 0.2
image_size = 8
channels = 1
[data.train]
images = "train"
[data.test]
images = "test"
[model]
d_model = 16
num_heads = 2
d_ff = 32
num_layers = 1
patch_size = 2
[batches]
batch_examples = 20
[training]
max_steps = 60
validate_every = 30
save_every = 30
best_metric = "accuracy"
[training.schedule]
kind = "constant"
learning_rate = 0.01
warmup_steps = 5
"""


def write_photos(folder, count, seed):
    pixels, labels = bars(count, seed)
    for number, (picture, label) in enumerate(zip(pixels, labels, strict=True)):
        file = folder / CLASSES[label] / f"{number:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        image = pillow.fromarray(picture)
        image.resize((8 * (1 + number % 3), 16), pillow.Resampling.NEAREST).save(file)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder / "train", 120, 1)
    write_photos(folder / "test", 40, 2)
    (folder / "photos.toml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="module")
def run(photos):
    return train(photos / "photos.toml", out=photos / "run", threads=1)


def prepared(folder, run="data", model=None, said=None, **data):
    table = {
        "name": "photos",
        "task": {"kind": "images"},
        "data": {"train": {"images": "train"}, "image_size": 8, **data},
        "model": {"patch_size": 2, "d_model": 16, "num_heads": 2, "d_ff": 32, **(model or {})},
    }
    say = (lambda _: None) if said is None else said.append
    return images.prepare(recipe_from(table, "", folder, "photos.toml"), folder / run, say=say)


def test_a_folder_of_photos_becomes_a_model_that_names_its_classes(photos, run):
    assert run.metrics["accuracy"] >= 90
    best = load_model(photos / "run")
    assert best.labels == CLASSES
    assert (best.config.image_size, best.config.channels, best.config.resizing) == (8, 1, "square")
    test = sorted((photos / "test").rglob("*.png"))
    found = classify_images(test, model=photos / "run")
    assert np.mean([answer == file.parent.name for answer, file in zip(found, test, strict=True)]) > 0.8
    assert "IMAGES" in (photos / "run" / "best" / "README.md").read_text()


def test_folders_and_tables_are_test_data(photos, run, monkeypatch):
    of_recipe = evaluate(model=photos / "run")
    assert of_recipe.examples == "40 images"
    assert of_recipe.labels == CLASSES
    monkeypatch.chdir(photos)
    files = sorted((photos / "test").rglob("*.png"))
    lines = [f"{file.relative_to(photos)},{file.parent.name}\n" for file in files]
    (photos / "test.csv").write_text("image,label\n" + "".join(lines))
    for data in ("test", photos / "test", "test.csv"):
        assert evaluate(model=photos / "run", data=data).scores[0].value == of_recipe.scores[0].value
    (photos / "test.csv").write_text("image,label\n" + lines[0] + lines[1].replace(",lying", ",crouching"))
    with pytest.raises(DataError, match="label 'crouching' does not occur in training"):
        evaluate(model=photos / "run", data="test.csv")


def test_a_run_resumes_to_the_bit_from_what_it_decoded(photos, run):
    short = photos / "resumed"
    train(photos / "photos.toml", out=short, threads=1, overrides=["training.max_steps=30"])
    decoded = {each.name: each.stat().st_mtime_ns for each in (short / "data").glob("*.npy")}
    train(photos / "photos.toml", out=short, threads=1)
    assert {each.name: each.stat().st_mtime_ns for each in (short / "data").glob("*.npy")} == decoded
    ours, whole = (load_model(RunFolder(each).latest().path).model for each in (short, photos / "run"))
    for name, tensor in model_tensors(ours).items():
        assert torch.equal(tensor, model_tensors(whole)[name]), name


def test_validation_photos_are_held_out_of_each_class_and_never_trained_on(photos):
    task = prepared(photos, valid_share=0.25)
    examples = task.examples()
    trained = set(examples.batch(np.arange(len(examples)), 0).lines.tolist())
    valid = task._valid
    assert trained | set(valid.lines.tolist()) == set(range(1, 121))
    assert not trained & set(valid.lines.tolist())
    assert (valid.labels == 0).sum() == pytest.approx(0.25 * (np.array(bars(120, 1)[1]) == 0).sum(), abs=1)
    assert task.labels == CLASSES


def test_a_run_does_not_resume_with_other_photos(photos, tmp_path):
    shutil.copytree(photos / "train", tmp_path / "train")
    prepared(tmp_path)
    first = next((tmp_path / "train").rglob("*.png"))
    pillow.new("L", (5, 5)).save(first)
    with pytest.raises(FolderError, match=r"data.train \(train\) has changed since this run began"):
        prepared(tmp_path)


def test_photos_are_resized_as_the_pretrained_model_s_were(photos, vision_folder):
    config = load_model(vision_folder(resizing="shortest_edge", resized_size=14, cropped=True)).config
    init = {**config.to_dict(), "pixel_mean": (0.1, 0.2, 0.3)}
    table = {"name": "x", "task": {"kind": "images"}, "data": {"train": {"images": "train"}}, "model": {}}
    source = recipe_from(table, "", photos, "photos.toml")
    source.recipe.model["init"] = init
    found = images.prepare(source, photos / "init", say=lambda _: None).config
    for name in ("image_size", "channels", "resizing", "resized_size", "cropped", "pixel_std"):
        assert getattr(found, name) == getattr(config, name), name
    assert found.pixel_mean == (0.1, 0.2, 0.3)
    assert found.num_labels == 2


def test_the_scale_of_new_models_is_that_of_the_training_photos(photos):
    task = prepared(photos, resizing="shortest_edge", channels=3)
    mean, deviation = task._train.mean_and_deviation()
    assert (task.config.pixel_mean, task.config.pixel_std) == (mean, deviation)
    assert (task.config.resizing, task.config.cropped, task.config.channels) == ("shortest_edge", True, 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"class_names": ["a", "b"]}, "data.class_names is for arrays"),
        ({"train": {"images": "train", "labels": "x"}}, "train names its labels, and has no arrays"),
        ({"train": {"images": "train", "images_array": "x"}}, "train names its labels, and has no arrays"),
        ({"train": {"images": "digits.npz"}}, "digits.npz has no labels"),
        (
            {"test": {"images": "digits.npz", "labels": "digits.npz"}},
            "one has image files, and the other arr",
        ),
        ({"train": {"images": "digits.npz", "labels": "digits.npz"}}, "data.image_size is for image files"),
        ({"image_size": 0}, "data.image_size = 0 is too small"),
    ],
)
def test_settings_that_do_not_fit_the_files_are_refused(photos, data, message):
    shutil.rmtree(photos / "refused", ignore_errors=True)
    np.savez(photos / "digits.npz", images=np.zeros((9, 8, 8), np.uint8), labels=np.arange(9))
    with pytest.raises(RecipeError, match=message) as caught:
        prepared(photos, "refused", **data)
    assert caught.value.hint


def test_photos_of_one_class_are_refused(photos):
    shutil.copytree(photos / "train" / "lying", photos / "one" / "only")
    with pytest.raises(DataError, match="all images have label only"):
        prepared(photos, "one-run", train={"images": "one"})
