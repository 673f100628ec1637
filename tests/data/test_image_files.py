"""Image files have the pixels that transformers reads of them; what cannot be read is refused by name."""

import io
import random
import sys
import warnings

import numpy as np
import pytest

from regard.data import image_files as reading
from regard.data.image_files import (
    PillowImage,
    image_files,
    is_image_file,
    pixels_of,
    read_image_file,
    resized_by_pillow,
    size_and_channels,
)
from regard.data.resizing import ImageFit, resized
from regard.errors import DataError, MissingExtra

pillow = pytest.importorskip("PIL.Image")
NOISE = np.random.default_rng(0).integers(0, 256, (17, 23, 4), dtype=np.uint8)
KINDS = [
    ("png", "RGB"), ("png", "RGBA"), ("png", "LA"), ("png", "L"), ("png", "P"), ("png", "1"),
    ("jpeg", "RGB"), ("jpeg", "L"), ("jpeg", "CMYK"), ("webp", "RGB"), ("webp", "RGBA"), ("gif", "P"),
    ("gif", "L"), ("bmp", "RGB"), ("bmp", "L"),
]  # fmt: skip
SQUARE = ImageFit(image_size=12, resizing="square", resized_size=None, resampling="bilinear", cropped=False)


def picture(mode="RGB"):
    return pillow.fromarray(NOISE if mode.endswith("A") else NOISE[:, :, :3]).convert(mode)


def written(path, image, **settings):
    image.save(path, **settings)
    return path


@pytest.mark.parametrize(("kind", "mode"), KINDS)
def test_the_pixels_are_those_that_transformers_loads(tmp_path, kind, mode):
    load_image = pytest.importorskip("transformers.image_utils").load_image
    path = written(tmp_path / "image", picture(mode), format=kind)
    with pillow.open(path) as image:  # load_image closes no file
        theirs = np.asarray(load_image(image)).transpose(2, 0, 1)
    np.testing.assert_array_equal(read_image_file(path, 3), theirs)
    with pillow.open(path) as image:
        grey = np.asarray(image.convert("L"))
    np.testing.assert_array_equal(read_image_file(path, 1), grey[None])
    assert read_image_file(path, 4).shape == (4, 17, 23)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_an_image_is_upright_by_its_orientation(tmp_path, kind, orientation):
    load_image = pytest.importorskip("transformers.image_utils").load_image
    exif = pillow.Exif()
    exif[0x0112] = orientation
    path = written(tmp_path / "image", picture(), format=kind, exif=exif)
    found = read_image_file(path, 3)
    assert found.shape == ((3, 17, 23) if orientation < 5 else (3, 23, 17))
    np.testing.assert_array_equal(found, np.asarray(load_image(str(path))).transpose(2, 0, 1))


def test_a_transparent_pixel_has_the_colour_that_is_stored_with_it(tmp_path):
    path = written(tmp_path / "clear.png", pillow.new("RGBA", (2, 2), (10, 200, 30, 0)))
    assert read_image_file(path, 3)[:, 0, 0].tolist() == [10, 200, 30]
    palette = pillow.new("P", (2, 2))
    palette.putpalette([10, 200, 30] * 4)
    path = written(tmp_path / "palette.png", palette, transparency=bytes([0, 128, 255, 255]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image_file(path, 3)[:, 1, 1].tolist() == [10, 200, 30]


def test_of_16_bits_the_upper_8_are_kept(tmp_path):
    deep = np.array([[0, 255, 256, 32_768, 65_535]], np.uint16)
    path = written(tmp_path / "deep.png", pillow.fromarray(deep))
    assert read_image_file(path, 1).tolist() == [[[0, 0, 1, 128, 255]]]
    assert read_image_file(path, 3).tolist() == [[[0, 0, 1, 128, 255]]] * 3
    assert size_and_channels(path) == (1, 5, 1)


def test_of_an_animation_the_first_image_is_read(tmp_path):
    frames = [pillow.new("RGB", (3, 3), colour) for colour in ("red", "blue")]
    path = written(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:])
    assert read_image_file(path, 3)[:, 0, 0].tolist() == [255, 0, 0]


def test_the_content_decides_about_the_format(tmp_path):
    path = written(tmp_path / "photo.jpg", picture(), format="png")
    np.testing.assert_array_equal(read_image_file(path, 3), NOISE[:, :, :3].transpose(2, 0, 1))
    assert is_image_file(path)
    (tmp_path / "text.png").write_text("not an image")
    assert not is_image_file(tmp_path / "text.png")
    with pytest.raises(DataError, match=r"text.png: not a PNG, JPEG, .* image, in spite of its name"):
        read_image_file(tmp_path / "text.png", 3)


def test_headers_tell_size_and_colours(tmp_path):
    for mode, channels in (("L", 1), ("LA", 1), ("RGB", 3), ("P", 3)):
        path = written(tmp_path / f"{mode}.png", picture(mode))
        assert size_and_channels(path) == (17, 23, channels)


@pytest.mark.parametrize("resampling", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", [(12, 12), (40, 9), (17, 5)])
def test_pillow_resizes_as_the_plain_form_does(resampling, size):
    image = NOISE.transpose(2, 0, 1)
    np.testing.assert_array_equal(
        resized_by_pillow(image, *size, resampling), resized(image, *size, resampling)
    )


def test_a_fitted_file_is_the_fitted_array(tmp_path):
    path = written(tmp_path / "a.png", picture())
    np.testing.assert_array_equal(read_image_file(path, 3, SQUARE), SQUARE(read_image_file(path, 3)))
    with pillow.open(path) as image:
        np.testing.assert_array_equal(pixels_of(image, 3, SQUARE), read_image_file(path, 3, SQUARE))


def test_a_folder_has_its_images_sorted_and_hidden_ones_are_left_out(tmp_path):
    names = ("b.PNG", "a.jpg", "in/c.webp", ".hidden.png", ".cache/d.png", "notes.txt")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [each.relative_to(tmp_path).as_posix() for each in image_files(tmp_path)]
    assert found == ["a.jpg", "b.PNG", "in/c.webp"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no image in this folder"):
        image_files(tmp_path / "empty")


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    path = written(tmp_path / "big.png", pillow.new("1", (9_500, 9_500)))  # more than Pillow warns of
    assert read_image_file(path, 1).shape == (1, 9_500, 9_500)
    bomb = written(tmp_path / "bomb.png", pillow.new("1", (12_000, 12_000)))
    with pytest.raises(DataError, match=r"12,000 x 12,000 pixels are too many, 134,217,728 at most"):
        read_image_file(bomb, 3)
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(DataError, match=r"bomb.png: more than 134,217,728 pixels"):
        read_image_file(bomb, 3)


@pytest.mark.parametrize(("kind", "mode"), KINDS)
def test_a_damaged_file_is_one_error_with_its_name(tmp_path, kind, mode):
    content, numbers = io.BytesIO(), random.Random(1)
    picture(mode).save(content, kind)
    path = tmp_path / "photo.jpg"
    refused = []
    for trial in range(60):
        damaged = bytearray(content.getvalue())
        if trial % 3:
            for _ in range(4):
                damaged[numbers.randrange(min(len(damaged), 200))] = numbers.randrange(256)
        else:
            damaged = damaged[: numbers.randrange(len(damaged) - 1)]
        path.write_bytes(damaged)
        for read in (lambda: read_image_file(path, 3), lambda: size_and_channels(path)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of metadata
                    read()
            except DataError as error:
                refused.append(error)
    assert refused
    for error in refused:
        assert str(path) in error.message
        assert error.hint


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="no such file"):
        read_image_file(tmp_path / "nothing.png", 3)
    with pytest.raises(DataError, match="is a folder"):
        read_image_file(tmp_path, 3)
    path = written(tmp_path / "a.png", picture())
    with pytest.raises(DataError, match="cannot have 2 channels"):
        read_image_file(path, 2)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra) as caught:
        read_image_file(path, 3)
    assert caught.value.hint == "pip install 'regard[images]'"


def test_a_very_narrow_image_is_refused(tmp_path):
    path = written(tmp_path / "line.png", pillow.new("L", (300, 2)))
    with pytest.raises(DataError, match="2 x 300 pixels are too narrow"):
        read_image_file(path, 1, SQUARE)


def test_an_image_of_pillow_is_recognised():
    assert isinstance(picture(), PillowImage)
    assert not isinstance(NOISE, PillowImage)
    assert reading.has_image_name(reading.Path("A.JPEG"))
