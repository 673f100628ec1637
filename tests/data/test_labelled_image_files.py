"""Image files with labels: of folders and tables, decoded once, and the same data or none."""

import dataclasses
import re

import numpy as np
import pytest

from regard.data.labelled import LabelSet
from regard.data.labelled_image_files import is_list_of_files, read_labelled_files
from regard.data.resizing import ImageFit
from regard.errors import DataError

pillow = pytest.importorskip("PIL.Image")
FIT = ImageFit(image_size=8, resizing="square", resized_size=None, resampling="bilinear", cropped=False)
LABELS = ("cat", "cat", "dog", "dog", "dog")


def paint(path, seed, size=(9, 7)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    pillow.fromarray(pixels).save(path)


@pytest.fixture
def animals(tmp_path):
    """train/cat has two images, train/dog three, one of them in a folder within."""
    for seed, name in enumerate(("cat/2.png", "cat/1.png", "dog/1.jpg", "dog/2.png", "dog/more/a.png")):
        paint(tmp_path / "train" / name, seed, (9 + seed, 7))
    (tmp_path / "train" / ".DS_Store").touch()
    (tmp_path / "train" / "cat" / "notes.txt").touch()
    return tmp_path


def table(folder, *lines, name="list.csv"):
    (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return name


def decoded(files, folder=None, classes=("cat", "dog"), fit=FIT, channels=3):
    said = []
    images = files.decoded(LabelSet.of(classes, {}), fit, channels, folder, said.append)
    return images, said


def test_folders_name_the_classes_of_their_images(animals):
    files = read_labelled_files("train", animals)
    names = [file.relative_to(animals / "train").as_posix() for file in files.files]
    assert names == ["cat/1.png", "cat/2.png", "dog/1.jpg", "dog/2.png", "dog/more/a.png"]
    assert files.labels == LABELS
    assert files.lines == (1, 2, 3, 4, 5)
    assert len(read_labelled_files("train", animals, first=3)) == 3


@pytest.mark.parametrize("name", ["list.csv", "list.tsv", "list.jsonl"])
def test_tables_name_images_and_labels(animals, name):
    rows = [("train/dog/1.jpg", "hound"), ("train/cat/2.png", "cat")]
    lines = ["image,label", *map(",".join, rows)]
    if name.endswith("tsv"):
        lines = ["label\timage", *(f"{label}\t{image}" for image, label in rows)]
    if name.endswith("jsonl"):
        lines = [f'{{"image": "{image}", "label": "{label}"}}' for image, label in rows]
    files = read_labelled_files(table(animals, *lines, name=name), animals)
    assert files.files == (animals / "train/dog/1.jpg", animals / "train/cat/2.png")
    assert files.labels == ("hound", "cat")
    assert files.lines == ((1, 2) if name.endswith("jsonl") else (2, 3))
    assert is_list_of_files(name, animals)
    assert is_list_of_files("train", animals)


def test_pixels_are_decoded_once_and_mapped_into_memory(animals, tmp_path):
    files = read_labelled_files("train", animals)
    images, said = decoded(files, tmp_path / "data")
    assert images.pixels.shape == (5, 3, 8, 8)
    assert images.labels.tolist() == [0, 0, 1, 1, 1]
    assert said == ["decoding 5 images of train: 0.0 MB"]
    again, said = decoded(files, tmp_path / "data")
    assert said == []
    assert not again.pixels.flags.owndata
    np.testing.assert_array_equal(again.pixels, images.pixels)
    np.testing.assert_array_equal(decoded(files)[0].pixels, images.pixels)
    assert [each.suffix for each in (tmp_path / "data").iterdir()] == [".npy"]
    decoded(files, tmp_path / "data", channels=1)
    decoded(files, tmp_path / "data", fit=dataclasses.replace(FIT, resampling="bicubic"))
    assert len(list((tmp_path / "data").iterdir())) == 3


def test_other_bytes_or_labels_are_other_data(animals):
    first = read_labelled_files("train", animals)
    assert read_labelled_files("train", animals).fingerprint() == first.fingerprint()
    other = dataclasses.replace(first, labels=("dog", *first.labels[1:]))
    paint(animals / "train/cat/1.png", 77)
    changed = read_labelled_files("train", animals)
    assert len({each.fingerprint() for each in (first, other, changed)}) == 3


def test_selected_files_keep_their_labels_and_lines(animals):
    files = read_labelled_files("train", animals).select(np.array([4, 0]))
    assert (files.labels, files.lines) == (("dog", "cat"), (5, 1))
    assert [file.name for file in files.files] == ["a.png", "1.png"]


def test_all_damaged_images_are_counted_and_the_first_is_named(animals, tmp_path):
    for name in ("cat/2.png", "dog/1.jpg"):
        path = animals / "train" / name
        path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError) as caught:
        decoded(read_labelled_files("train", animals), tmp_path / "data")
    assert re.match(
        r".*/cat/2.png: damaged: .*; 2 of 5 images cannot be read, also \S+1.jpg$", str(caught.value)
    )
    assert caught.value.hint == "copy it again, or convert it to PNG or JPEG, or move it out of train"
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("count", [1, 3, 7])
def test_a_damaged_image_of_a_table_is_named_with_its_line(animals, count):
    rows = []
    for number in range(count):
        paint(animals / f"{number}.png", number)
        path = animals / f"{number}.png"
        path.write_bytes(path.read_bytes()[:-30])
        rows += [f"{number}.png,cat", "train/dog/2.png,dog"]
    with pytest.raises(DataError) as caught:
        decoded(read_labelled_files(table(animals, "image,label", *rows), animals))
    message = caught.value.message
    assert message.startswith(f"list.csv:2: {animals / '0.png'}: damaged: ")
    assert caught.value.hint.endswith("or take its line out of list.csv")
    assert [f"list.csv:{2 + 2 * number}: " in message for number in range(count)] == [
        number < 5 for number in range(count)
    ]
    assert (" and 2 more" in message) == (count == 7)


def test_a_label_that_training_lacks_is_refused(animals):
    with pytest.raises(DataError, match=r"dog/1.jpg: label 'dog' does not occur in training"):
        read_labelled_files("train", animals).numbered(LabelSet.of(("cat", "cow"), {}))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["image,label", "train/cat/1.png,cat", "nothing.png,dog"],
            "list.csv:3: no such file: .*nothing.png",
        ),
        (["image,label", "train/cat/1.png,"], "list.csv:2: an image without a label"),
        (["picture,label", "train/cat/1.png,cat"], "no column 'image'"),
        (["train/cat/1.png,cat", "train/dog/1.jpg,dog"], "the columns have no names"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(animals, lines, message):
    with pytest.raises(DataError, match=message) as caught:
        read_labelled_files(table(animals, *lines), animals)
    assert caught.value.hint


def test_a_class_may_be_called_label(animals):
    lines = ["image,label", *["train/cat/1.png,cat", "train/dog/1.jpg,label"] * 20]
    assert set(read_labelled_files(table(animals, *lines), animals).labels) == {"cat", "label"}


def test_a_folder_without_classes_is_refused(animals):
    paint(animals / "train" / "stray.png", 1)
    with pytest.raises(DataError, match=r"1 images are in no folder of a class, such as stray.png"):
        read_labelled_files("train", animals)
    (animals / "train" / "stray.png").unlink()
    (animals / "train" / "cow").mkdir()
    with pytest.raises(DataError, match="cow: no image in this folder"):
        read_labelled_files("train", animals)
    with pytest.raises(DataError, match="no folder of a class"):
        read_labelled_files("train/cow", animals)
