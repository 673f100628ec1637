"""Images and labels are read completely, refused if inconsistent, and the same in every batch."""

import struct

import numpy as np
import pytest
import torch

from regard.data.augmentation import AugmentationSettings
from regard.data.batch import Batch, LabelledBatch
from regard.data.examples import Examples
from regard.data.images import (
    ImageExamples,
    Images,
    ImageSettings,
    read_images,
    read_labelled_images,
    read_labels,
    refuse_other_sizes,
    refuse_unseen_labels,
)
from regard.errors import DataError, RecipeError

PIXELS = np.random.default_rng(0).integers(0, 256, (10, 6, 6), dtype=np.uint8)
LABELS = np.arange(10, dtype=np.uint8) % 3


def write(folder, pixels=PIXELS, labels=LABELS) -> ImageSettings:
    for name, array in (("images", pixels), ("labels", labels)):
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        (folder / name).write_bytes(header + array.tobytes())
    return ImageSettings(images="images", labels="labels")


@pytest.fixture
def images(tmp_path) -> Images:
    return read_labelled_images(write(tmp_path), tmp_path)


def test_images_are_read_with_their_classes_and_places(images):
    assert np.array_equal(images.pixels[:, 0], PIXELS)
    assert images.labels.tolist() == LABELS.tolist()
    assert images.lines.tolist() == list(range(1, 11))
    assert (len(images), images.size, images.channels) == (10, 6, 1)


def test_colours_come_last_in_a_file_and_first_in_a_model(tmp_path):
    coloured = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    np.savez(tmp_path / "a.npz", images=coloured, labels=np.array([[0], [1]]))
    settings = ImageSettings(images="a.npz", labels="a.npz")
    images = read_labelled_images(settings, tmp_path)
    assert images.pixels.shape == (2, 3, 4, 4)
    assert np.array_equal(images.pixels[0, 2], coloured[0, :, :, 2])
    assert images.labels.tolist() == [0, 1]


def test_as_many_as_requested(tmp_path):
    write(tmp_path)
    settings = ImageSettings(images="images", labels="labels", first=4)
    assert len(read_labelled_images(settings, tmp_path)) == 4
    with pytest.raises(RecipeError, match="first = -1"):
        ImageSettings(images="images", labels="labels", first=-1)


def test_unequal_counts_are_refused(tmp_path):
    with pytest.raises(DataError, match="images has 10 images, labels has 9 labels"):
        read_labelled_images(write(tmp_path, labels=LABELS[:9]), tmp_path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (PIXELS.astype(np.float32), "float32, not bytes"),
        (PIXELS[0], "6 x 6 holds no images"),
        (PIXELS[:, :, :, None].repeat(2, 3), "10 x 6 x 6 x 2 holds no images"),
        (PIXELS[:0], "no image in an array of 0 x 6 x 6"),
        (PIXELS[:, :0], "no image"),
    ],
)
def test_what_is_no_image_is_refused(tmp_path, array, message):
    np.savez(tmp_path / "a.npz", images=array)
    with pytest.raises(DataError, match=message):
        read_images(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([0.0, np.nan]), "float64, not integers"),
        (np.array(["a", "b"]), "not integers"),
        (np.array([True, False]), "bool, not integers"),
        (np.array([0, 3, -2]), "label 3 is -2"),
        (PIXELS, "10 x 6 x 6, not one for each image"),
    ],
)
def test_what_is_no_class_is_refused(tmp_path, array, message):
    np.savez(tmp_path / "a.npz", labels=array)
    with pytest.raises(DataError, match=message):
        read_labels(tmp_path / "a.npz")


def test_images_of_the_wrong_size_are_refused(images):
    refuse_other_sizes(images.pixels, images.name, size=6, channels=1)
    with pytest.raises(DataError, match="images of 6 x 6 pixels in 1 channels, but the model reads 8 x 8"):
        refuse_other_sizes(images.pixels, images.name, size=8, channels=1)
    with pytest.raises(DataError, match="in 3"):
        refuse_other_sizes(images.pixels, images.name, size=6, channels=3)


def test_images_that_are_not_square_are_refused(tmp_path):
    images = read_labelled_images(write(tmp_path, PIXELS[:, :, :4]), tmp_path)
    with pytest.raises(DataError, match="6 x 4 pixels are not square"):
        _ = images.size


def test_a_class_that_no_training_image_has_is_refused(images):
    refuse_unseen_labels(images, images)
    with pytest.raises(DataError, match="image 2 has label 1, which no training image has"):
        refuse_unseen_labels(images, images.select(np.flatnonzero(images.labels != 1)))


def test_mean_and_deviation_are_those_of_all_pixels(images):
    mean, deviation = images.mean_and_deviation()
    assert mean == pytest.approx((PIXELS / 255).mean())
    assert deviation == pytest.approx((PIXELS / 255).std())


def test_images_of_one_grey_divide_by_one(tmp_path):
    images = read_labelled_images(write(tmp_path, np.full_like(PIXELS, 51)), tmp_path)
    assert images.mean_and_deviation() == (pytest.approx(0.2), 1.0)


def test_a_changed_pixel_or_label_is_another_set(images, tmp_path):
    changed = PIXELS.copy()
    changed[3, 2, 1] ^= 1
    other = [write(tmp_path, changed), write(tmp_path, labels=LABELS[::-1])]
    prints = {read_labelled_images(each, tmp_path).fingerprint() for each in other[:1]}
    write(tmp_path, labels=LABELS[::-1])
    prints.add(read_labelled_images(other[1], tmp_path).fingerprint())
    assert images.fingerprint() not in prints
    write(tmp_path)
    assert read_labelled_images(other[0], tmp_path).fingerprint() == images.fingerprint()


def examples(images: Images, seed: int = 1, **bounds: float) -> ImageExamples:
    mean, deviation = images.mean_and_deviation()
    augmentation = AugmentationSettings(**bounds)
    return ImageExamples(images, mean=mean, deviation=deviation, augmentation=augmentation, seed=seed)


def test_a_batch_has_the_interface_of_training(images):
    data = examples(images)
    batch = data.batch(np.array([3, 7]), 0)
    assert isinstance(data, Examples)
    assert isinstance(batch, Batch)
    assert isinstance(batch, LabelledBatch)
    assert batch.num_targets == 2
    assert batch.lines.tolist() == [4, 8]
    assert batch.labels.tolist() == [0, 1]
    assert batch.inputs[0] is batch.images
    assert batch.to("meta").images.device.type == "meta"


def test_pixels_are_normalised(images):
    batch = examples(images).batch(np.arange(10), 0)
    assert abs(batch.images.mean()) < 1e-5
    assert abs(batch.images.std(correction=0) - 1) < 1e-5
    mean, deviation = images.mean_and_deviation()
    expected = (torch.from_numpy(images.pixels) / 255 - mean) / deviation
    torch.testing.assert_close(batch.images, expected, atol=1e-5, rtol=1e-5)


def test_augmentation_is_a_function_of_seed_epoch_and_example(images):
    data = examples(images, shift=1.0, rotation=10.0, scale=0.1)
    together = data.batch(np.array([5, 2, 9]), 3)
    assert torch.equal(data.batch(np.array([2]), 3).images[0], together.images[1])
    assert not torch.equal(data.batch(np.array([2]), 4).images[0], together.images[1])
    other = examples(images, seed=2, shift=1.0, rotation=10.0, scale=0.1)
    assert not torch.equal(other.batch(np.array([2]), 3).images[0], together.images[1])


def test_what_was_selected_keeps_its_places(images):
    some = images.select(np.array([8, 1]))
    assert examples(some).batch(np.array([0]), 0).lines.tolist() == [9]
