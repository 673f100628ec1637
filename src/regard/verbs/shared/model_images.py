"""Images of files, of Pillow and of arrays as a model reads them: resized, cropped and normalised."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.data.files import locate
from regard.data.image_files import (
    PillowImage,
    has_image_name,
    image_files,
    is_image_file,
    pixels_of,
    read_image_file,
)
from regard.data.images import normalise, read_images, refuse_other_sizes
from regard.data.resizing import ImageFit, refuse_narrow
from regard.errors import DataError
from regard.models.image_text import ImageTextConfig
from regard.models.vision import VisionConfig

ImageConfig = VisionConfig | ImageTextConfig
ImageSource = str | Path | PillowImage | np.ndarray  # a file or folder, an image of Pillow, or an array
Images = ImageSource | Sequence[ImageSource]
Fitted = UInt8[np.ndarray, "channels size size"]
FileName = str | None  # of an image; None: it came from an array


def fit_of(config: ImageConfig) -> ImageFit:
    """How the model's images are resized and cropped."""
    return ImageFit(**{each.name: getattr(config, each.name) for each in dataclasses.fields(ImageFit)})


def image_batches(
    config: ImageConfig, images: Images, name: str, batch_size: int
) -> Iterator[tuple[Sequence[FileName], Float[Tensor, "images channels size size"]]]:
    """Images in batches, normalised for the model, with the file of each; `name` is used in messages.

    An array is images x channels x height x width; one within a list is channels x height x width.

    Raises:
        DataError: an image cannot be read, or has other channels, or another size after resizing.
        MissingExtra: there are image files, and Pillow is not installed.
    """
    several = [images] if isinstance(images, str | Path | PillowImage) else images
    found = (
        ((None, pixels) for pixels in _of_array(config, several, name))
        if isinstance(several, np.ndarray)
        else itertools.chain.from_iterable(
            _named(config, each, f"image {number}") for number, each in enumerate(several, start=1)
        )
    )
    while batch := list(itertools.islice(found, batch_size)):
        pixels = np.stack([each for _, each in batch])
        yield (
            [file for file, _ in batch],
            normalise(pixels, mean=config.pixel_mean, deviation=config.pixel_std),
        )


def _named(config: ImageConfig, image: ImageSource, name: str) -> Iterator[tuple[FileName, Fitted]]:
    """The images of one source, with their files: "digits.npz:0" is an image of an array in a file."""
    if isinstance(image, str | Path):
        yield from _of_path(config, str(image))
    elif isinstance(image, np.ndarray):
        if image.ndim != 3:
            raise DataError(
                f"{name}: an array of {image.ndim} dimensions is not one image", "channels x height x width"
            )
        yield from ((None, each) for each in _of_array(config, image[None], name))
    else:
        fitted = pixels_of(image, config.channels, fit_of(config), name)
        yield None, _checked_size(config, fitted, name)


def _of_path(config: ImageConfig, spec: str) -> Iterator[tuple[FileName, Fitted]]:
    path = locate(spec, Path())
    if path.is_dir():
        for each in image_files(path):
            yield str(Path(spec) / each.relative_to(path)), file_pixels(config, each)
    elif holds_one_image(path):
        yield spec, file_pixels(config, path)
    else:
        arrays = _of_array(config, read_images(path), spec)
        yield from ((f"{spec}:{number}", pixels) for number, pixels in enumerate(arrays))


def array_or_path(spec: str | Path) -> Images:
    """The array of an IDX or NPZ file, whose images have no files of their own; else the path."""
    path = locate(str(spec), Path())
    return spec if path.is_dir() or holds_one_image(path) else read_images(path)


def holds_one_image(path: Path) -> bool:
    """True if a file is an image by its content, or claims to be one by its name."""
    return is_image_file(path) or has_image_name(path)


def file_pixels(config: ImageConfig, path: Path) -> Fitted:
    """The pixels of an image file as the model reads them."""
    fitted = read_image_file(path, config.channels, fit_of(config))
    return _checked_size(config, fitted, str(path))


def _of_array(config: ImageConfig, images: np.ndarray, name: str) -> Iterator[Fitted]:
    """Images of one array. Grey ones get three equal channels if the model reads colours."""
    if images.dtype != np.uint8 or images.ndim != 4:
        raise DataError(
            f"{name}: an array of {images.dtype} and {images.ndim} dimensions is not an array of images",
            "give bytes (uint8, 0 to 255): images x channels x height x width",
        )
    refuse_narrow(images.shape[2], images.shape[3], name)
    if config.channels == 3 and images.shape[1] == 1:
        images = np.broadcast_to(images, (len(images), 3, *images.shape[2:]))
    if images.shape[1] != config.channels:
        raise DataError(
            f"{name}: images of {images.shape[1]} channels, but the model reads {config.channels}",
            "convert them to the channels that the model was trained on",
        )
    fit = fit_of(config)
    for image in images:
        yield _checked_size(config, fit(image), name)


def array_pixels(config: ImageConfig, image: UInt8[np.ndarray, "channels height width"], name: str) -> Fitted:
    """The pixels of one image of an array as the model reads them."""
    return next(_of_array(config, image[None], name))


def _checked_size(config: ImageConfig, fitted: np.ndarray, name: str) -> Fitted:
    assert config.image_size is not None
    refuse_other_sizes(fitted[None], name, size=config.image_size, channels=config.channels)
    return fitted
