"""Images are resized to the bit as by Pillow, and cropped as in transformers."""

import numpy as np
import pytest

from regard.data.resizing import ImageFit, center_cropped, resized

SIZES = [  # of an image, of the resized one
    ((12, 12), (12, 12)),
    ((31, 17), (12, 8)),
    ((5, 9), (23, 40)),
    ((1, 1), (4, 3)),
    ((40, 7), (40, 12)),
    ((7, 40), (12, 40)),
    ((301, 233), (64, 49)),
    ((72, 40), (8, 8)),
]
TALL = [((73, 40), (8, 8)), ((300, 40), (60, 8)), ((31, 17), (30, 30)), ((60, 40), (8, 80))]


def noise(height, width, channels=3, seed=0):
    """Black and white beside grey, whose bicubic sums are below 0 and above 255."""
    random = np.random.default_rng(seed)
    image = random.integers(0, 256, (channels, height, width), dtype=np.uint8)
    return np.where(random.random(image.shape) < 0.3, np.uint8(255) * (image % 2), image)


@pytest.mark.parametrize("resampling", ["bicubic", "bilinear"])
@pytest.mark.parametrize(("size", "new"), [*SIZES, *TALL])
def test_each_pixel_is_that_of_pillow(size, new, resampling):
    pillow = pytest.importorskip("PIL.Image")
    if (size, new) in TALL and int(pillow.__version__.partition(".")[0]) < 13:
        pytest.skip("its passes were in the other order")
    image = noise(*size)
    code = {"bicubic": pillow.Resampling.BICUBIC, "bilinear": pillow.Resampling.BILINEAR}[resampling]
    theirs = pillow.fromarray(image.transpose(1, 2, 0)).resize((new[1], new[0]), code)
    assert np.array_equal(resized(image, *new, resampling), np.asarray(theirs).transpose(2, 0, 1))


def test_a_grey_image_stays_grey():
    image = np.full((1, 9, 13), 77, np.uint8)
    assert np.array_equal(resized(image, 5, 6, "bicubic"), np.full((1, 5, 6), 77, np.uint8))


@pytest.mark.parametrize("size", [(9, 12), (12, 9), (8, 8), (5, 20), (6, 7), (3, 4), (1, 1)])
def test_the_centre_is_that_of_transformers(size):
    transforms = pytest.importorskip("transformers.image_transforms")
    pytest.importorskip("PIL")
    image = noise(*size, seed=1)
    theirs = transforms.center_crop(image, (8, 8), input_data_format="channels_first")
    assert np.array_equal(center_cropped(image, 8), theirs)


def test_an_image_is_fitted_by_its_shorter_side_or_by_both():
    image = noise(10, 25)
    settings = {"image_size": 8, "resized_size": 8, "resampling": "bicubic"}
    shorter = ImageFit(**settings, resizing="shortest_edge", cropped=False)(image)
    assert shorter.shape == (3, 8, 20)
    assert np.array_equal(shorter, resized(image, 8, 20, "bicubic"))
    assert np.array_equal(
        ImageFit(**settings, resizing="shortest_edge", cropped=True)(image), shorter[:, :, 6:14]
    )
    both = ImageFit(**settings, resizing="square", cropped=True)(image)
    assert np.array_equal(both, resized(image, 8, 8, "bicubic"))
    assert np.array_equal(ImageFit(**settings, resizing=None, cropped=False)(image), image)
