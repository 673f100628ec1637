"""Folders and tables of photographs become a recipe that trains, and what it validates on is held out."""

import shutil
import tomllib

import pytest

import regard
from regard.cli import run
from regard.errors import DataError, RecipeError, UserError
from regard.verbs.new import new
from regard.verbs.proposals import images as proposals
from regard.verbs.proposals.images import image_size
from regard.verbs.proposals.input_files import input_files
from regard.verbs.proposals.task_detection import detect_task
from regard.verbs.proposals.training_speed import Speed
from regard.verbs.shared.settings import load_recipe
from regard.verbs.train import train
from tests.verbs.tasks.test_images_of_files import CLASSES, write_photos

pillow = pytest.importorskip("PIL.Image")
FEW = ["training.max_steps=4", "training.validate_every=4", "training.save_every=4", "model.d_model=16"]


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """train/ and test/ with folders of two classes, in the current folder."""
    write_photos(tmp_path / "photos" / "train", 60, 1)
    write_photos(tmp_path / "photos" / "test", 20, 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def timed(monkeypatch):
    """A speed that is not measured, with the number of images that it would be measured on."""
    measured = []

    def speed(model, images, batch_size, device, threads=None):
        measured.append(len(images))
        return Speed(
            target_tokens_per_second=1000.0,
            target_tokens_per_update=float(batch_size),
            target_tokens_per_pair=1.0,
            threads=1,
        )

    monkeypatch.setattr(proposals, "measure_image_speed", speed)
    return measured


def rows(path):
    _, *lines = path.read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines]


def test_a_folder_of_classes_becomes_a_recipe_that_trains_and_classifies(photos, monkeypatch):
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_SECONDS", 0.02)
    written = new("photos/train", out="bars")
    assert (written.task, written.unit, written.holds_out) == ("images", "images", True)
    assert written.reading == "images (a folder for each class)"
    assert written.train + written.valid == 60
    assert written.valid == pytest.approx(6, abs=1)
    assert "2 classes, images of 16 x 16 pixels, the model of recipes/vit-mnist" in written.summary
    assert "on this machine" in written.summary
    recipe = load_recipe(written.recipe).recipe
    assert (recipe.data.image_size, recipe.data.channels, recipe.model["patch_size"]) == (16, 1, 2)
    result = train("bars.toml", overrides=FEW, threads=1)
    assert set(result.metrics) == {"accuracy"} or "accuracy" in result.metrics
    photo = next((photos / "photos" / "test" / "lying").iterdir())
    [found] = regard.classify_images(photo, model="runs/bars")
    assert found in CLASSES


def test_what_is_held_out_depends_on_the_content_of_files_alone(photos, timed):
    new("photos/train", out="first")
    held = rows(photos / "first.data" / "valid.tsv")
    trained = rows(photos / "first.data" / "train.tsv")
    assert not {file for file, _ in held} & {file for file, _ in trained}
    assert {label for _, label in held} == {*CLASSES}
    digests = {proposals.file_digest(photos / "first.data" / file) for file, _ in held}
    shutil.copytree("photos/train", "copy/train")
    for file in sorted((photos / "copy").rglob("*.png")):
        file.rename(file.with_name(f"z{file.name}"))
        shutil.copy(file.with_name(f"z{file.name}"), file.with_name(f"again-{file.name}"))
    new("copy/train", out="second")
    again = {
        proposals.file_digest(photos / "second.data" / file)
        for file, _ in rows(photos / "second.data/valid.tsv")
    }
    kept = {
        proposals.file_digest(photos / "second.data" / file)
        for file, _ in rows(photos / "second.data/train.tsv")
    }
    assert again == digests
    assert not again & kept


def test_folders_of_parts_are_recognised(photos, timed, capsys):
    assert run(["new", "photos"]) == 0
    assert "photos.toml: " in (shown := capsys.readouterr().out)
    assert "held out, 20 to test" in shown
    shutil.copytree("photos/test", "photos/val")
    assert run(["new", "photos", "--out", "other"]) == 0
    assert "60 images to train, 20 to validate, 20 to test" in capsys.readouterr().out
    table = tomllib.loads((photos / "other.toml").read_text("utf-8"))
    assert [*table["data"]] == ["image_size", "channels", "resizing", "train", "valid", "test"]
    assert table["data"]["valid"] == {"images": "other.data/valid.tsv"}
    with pytest.raises(DataError, match="has a folder to validate on, and so has --valid"):
        new("photos", valid="photos/test", out="third")
    new("photos/train", valid="photos/test", out="fourth")
    assert len(rows(photos / "fourth.data" / "valid.tsv")) == 20


@pytest.mark.parametrize("task", [None, "images"])
def test_a_table_of_paths_is_one_of_images(photos, timed, task):
    files = sorted((photos / "photos/train").rglob("*.png"))
    lines = [f"{number},{file.relative_to(photos)},{file.parent.name}\n" for number, file in enumerate(files)]
    (photos / "list.csv").write_text("id,picture,kind\n" + "".join(lines))
    written = new("list.csv", task=task)
    assert (written.task, written.reading) == ("images", "images (columns picture and kind; not used: id)")
    assert written.train + written.valid == 60
    by_name = new("list.csv", task=task, columns=["picture", "kind"], out="named")
    assert by_name.train == written.train


def test_what_cannot_be_used_is_left_out_and_counted(photos, timed):
    folder = photos / "photos/train/lying"
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "notes.txt").touch()
    (folder / ".DS_Store").touch()
    written = new("photos/train", out="bars")
    assert written.skipped == {"unreadable": 1, "not named as images": 1}
    assert len(written.warnings) == 1
    assert "broken.png: damaged" in written.warnings[0]


def test_time_and_amount_set_the_updates(photos, timed):
    def steps(**settings):
        recipe = new("photos/train", out=f"r{len(timed)}", **settings).recipe
        return tomllib.loads(recipe.read_text())["training"]["max_steps"]

    amount = steps()
    assert amount == pytest.approx(12_000 * (54 / 55_200) ** 0.5, rel=0.06)
    assert steps(minutes=0.0001) == 100  # at least so many
    assert timed == [54, 54]
    with pytest.raises(RecipeError, match="minutes must be above 0"):
        new("photos/train", minutes=0.0, out="none")


@pytest.mark.parametrize(
    ("shapes", "size"),
    [
        ({(28, 28, 1): 9}, 28),
        ({(64, 64, 3): 9}, 64),
        ({(30, 30, 3): 9}, 32),
        ({(3024, 4032, 3): 9, (100, 90, 3): 1}, 64),
        ({(40, 30, 3): 5, (20, 50, 3): 4}, 32),
        ({(5, 9, 3): 5}, 16),
    ],
)
def test_the_size_is_that_of_small_images_or_a_power_of_two(shapes, size):
    assert image_size(shapes) == size


def test_too_few_images_and_classes_are_refused(photos, timed):
    shutil.copytree("photos/train/lying", "one/lying")
    for file in sorted((photos / "one/lying").iterdir())[5:]:
        file.unlink()
    with pytest.raises(DataError, match="5 images are too few to learn from") as caught:
        new("one")
    assert caught.value.hint
    shutil.copytree("photos/train/lying", "single/lying")
    with pytest.raises(DataError, match="all images have one class, 'lying'"):
        new("single")
    shutil.copytree("photos/test/lying", "other/crouching")
    with pytest.raises(DataError, match="no training image has the class 'crouching'"):
        new("photos/train", valid="other", out="x")
    assert not (photos / "x.toml").exists()


def test_a_text_beside_the_classes_does_not_make_a_folder_of_images_one_of_texts(photos):
    (photos / "photos/train/README.txt").write_text("photographs\n")
    assert detect_task(input_files("photos/train"), None, ()).task == "images"


def test_a_folder_is_for_images_alone(photos, timed):
    (photos / "a.txt").write_text("a line\n" * 30)
    for arguments in (("photos/train", "a.txt"), ("a.txt", "photos/train")):
        with pytest.raises(DataError, match="photos/train is a folder"):
            new(*arguments)
    with pytest.raises(DataError, match="photos/train is a folder"):
        new("photos/train", task="classification")
    with pytest.raises(DataError, match="photos/test is a folder"):
        new("a.txt", valid="photos/test")
    with pytest.raises(UserError, match="for onnx"):
        new("photos/train", targets=["onnx"])
    with pytest.raises(RecipeError, match="init is for translations, not for images"):
        new("photos/train", init="en-de")
