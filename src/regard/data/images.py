"""Labelled images: reads them from files and makes batches, with augmentation in training."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from regard.data.arrays import read_array, shape_of
from regard.data.augmentation import AugmentationSettings, augmented, uniform
from regard.data.batch import RowBatch
from regard.data.examples import Indices, Lengths
from regard.data.files import locate
from regard.data.noise import derive_seed
from regard.errors import DataError, RecipeError

PixelNumber = float | tuple[float, ...]  # of all channels, or of each


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """The files of images and labels: two IDX files (plain or gzipped), arrays of NPZ files, or image files.

    A file is a path, or `NAME:FILE` of the catalogue. `images_array` and `labels_array` are the names of the
    arrays in an NPZ file. `first`: the number of images that are read (0: all). For image files `images` is a
    folder with a folder for each class, or a table with the columns `image` and `label`, without `labels`.
    """

    images: str  # the file of the images; or a folder of class folders, or a table of paths and labels
    labels: str = ""  # the file of their labels, unless images is a folder or a table
    images_array: str = "images"
    labels_array: str = "labels"
    first: int = 0

    def __post_init__(self) -> None:
        if self.first < 0:
            raise RecipeError(f"first = {self.first} is below 0", "give a number of images; 0 reads all")


@dataclass(frozen=True, kw_only=True)
class Images:
    """Images in memory, with the class of each and its number in its file, from 1."""

    pixels: UInt8[np.ndarray, "images channels height width"]
    labels: Int64[np.ndarray, " images"]
    lines: Int64[np.ndarray, " images"]
    name: str  # for messages

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def channels(self) -> int:
        return self.pixels.shape[1]

    @property
    def size(self) -> int:
        """The side of the images in pixels; DataError if they are not square."""
        height, width = self.pixels.shape[2:]
        if height != width:
            raise DataError(
                f"{self.name}: images of {height} x {width} pixels are not square",
                "pad or crop them to squares",
            )
        return height

    def select(self, examples: np.ndarray) -> "Images":
        """The images with these indices, from 0."""
        return Images(
            pixels=self.pixels[examples],
            labels=self.labels[examples],
            lines=self.lines[examples],
            name=self.name,
        )

    def fingerprint(self) -> str:
        """A digest of images and labels, by which a resumed run recognises its data."""
        digest = hashlib.sha256(repr(self.pixels.shape).encode())
        digest.update(self.pixels.tobytes())
        digest.update(self.labels.tobytes())
        return digest.hexdigest()

    def mean_and_deviation(self) -> tuple[float, float]:
        """Mean and standard deviation of all pixels, scaled to 0 to 1; a deviation of 0 becomes 1."""
        # in parts, because bincount needs 8 bytes for each pixel
        parts = np.array_split(self.pixels.ravel(), -(-self.pixels.size // 2**22))
        counts = sum((np.bincount(part, minlength=256) for part in parts), np.zeros(256, np.int64))
        values = np.arange(256) / 255
        mean = float(counts @ values / counts.sum())
        deviation = math.sqrt(float(counts @ (values - mean) ** 2 / counts.sum()))
        return mean, deviation or 1.0


# Files


def read_labelled_images(settings: ImageSettings, base: Path) -> Images:
    """Reads images and their labels; relative paths start at `base`.

    Raises:
        DataError: a file is missing, damaged or has another format, or the counts differ.
    """
    pixels = read_images(locate(settings.images, base), settings.images_array)
    labels = read_labels(locate(settings.labels, base), settings.labels_array)
    if len(pixels) != len(labels):
        raise DataError(
            f"{settings.images} has {len(pixels):,} images, {settings.labels} has {len(labels):,} labels",
            "each image needs one label: are the files of the same data set?",
        )
    count = settings.first or len(pixels)
    lines = np.arange(1, len(pixels) + 1, dtype=np.int64)
    return Images(pixels=pixels[:count], labels=labels[:count], lines=lines[:count], name=settings.images)


def read_images(path: Path, array: str = "images") -> UInt8[np.ndarray, "images channels height width"]:
    """Reads 8-bit images: `images x height x width` (grey) or `images x height x width x channels`.

    Raises:
        DataError: the file is missing, damaged, has another format, or holds no image.
    """
    pixels = read_array(path, array)
    if not pixels.size:
        raise DataError(f"{path}: no image in an array of {shape_of(pixels)}", "is it the right file?")
    if pixels.dtype != np.uint8:
        raise DataError(
            f"{path}: pixels are {pixels.dtype}, not bytes", "store them as uint8, from 0 (black) to 255"
        )
    if pixels.ndim == 4 and pixels.shape[3] in (1, 3, 4):
        pixels = pixels.transpose(0, 3, 1, 2)
    elif pixels.ndim == 3:
        pixels = pixels[:, None]
    else:
        raise DataError(
            f"{path}: an array of {shape_of(pixels)} holds no images",
            "images x height x width, or images x height x width x channels (1, 3 or 4)",
        )
    return np.ascontiguousarray(pixels)


def read_labels(path: Path, array: str = "labels") -> Int64[np.ndarray, " images"]:
    """Reads labels: class numbers, from 0.

    Raises:
        DataError: the file is missing, damaged or has another format, or a label is not an integer from 0.
    """
    labels = read_array(path, array)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(
            f"{path}: labels are {shape_of(labels)}, not one for each image", "is it the right file?"
        )
    if labels.dtype.kind not in "iu":
        raise DataError(
            f"{path}: labels are {labels.dtype}, not integers", "number the classes from 0, as integers"
        )
    labels = labels.astype(np.int64)
    if len(labels) and labels.min() < 0:
        place = int(labels.argmin())
        raise DataError(f"{path}: label {place + 1} is {labels[place]}", "number the classes from 0")
    return labels


def refuse_other_sizes(
    pixels: UInt8[np.ndarray, "images channels height width"], name: str, *, size: int, channels: int
) -> None:
    """Raises a DataError unless the images of the file `name` have the size that a model reads."""
    if pixels.shape[1:] != (channels, size, size):
        found = "{1} x {2} pixels in {0} channels".format(*pixels.shape[1:])
        raise DataError(
            f"{name}: images of {found}, but the model reads {size} x {size} pixels in {channels}",
            "resize or convert them to the size that the model was trained on",
        )


def refuse_unseen_labels(images: Images, training: Images) -> None:
    """Raises a DataError if a class of `images` does not occur among the `training` images."""
    unknown = ~np.isin(images.labels, training.labels)
    if unknown.any():
        place = int(unknown.argmax())
        raise DataError(
            f"{images.name}: image {place + 1} has label {images.labels[place]}, which no training image has",
            f"{int(unknown.sum()):,} of {len(images):,} images have such a label;"
            " are the files of the same data set?",
        )


# Batches


@dataclass(frozen=True, kw_only=True)
class ImageBatch(RowBatch):
    """Normalised images and their classes."""

    images: Float[Tensor, "batch channels height width"]
    labels: Int64[Tensor, " batch"]

    @property
    def inputs(self) -> tuple[Tensor]:
        return (self.images,)

    @property
    def num_targets(self) -> int:
        return len(self.labels)


class ImageExamples:
    """Images in memory as `Examples`; augmentation depends on (seed, epoch, example) alone."""

    def __init__(
        self,
        images: Images,
        *,
        mean: PixelNumber,
        deviation: PixelNumber,
        augmentation: AugmentationSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.images, self.mean, self.deviation = images, mean, deviation
        self.augmentation = augmentation if augmentation and augmentation.enabled else None
        self.seed = seed

    def __len__(self) -> int:
        return len(self.images)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        """All lengths are 1."""
        ones = np.ones(len(examples), np.int64)
        return ones, ones

    def batch(self, examples: Indices, epoch: int) -> ImageBatch:
        images = normalise(self.images.pixels[examples], mean=self.mean, deviation=self.deviation)
        if self.augmentation:
            random_numbers = uniform(derive_seed(self.seed, epoch), examples, 4)
            images = augmented(images, torch.from_numpy(random_numbers).float(), self.augmentation)
        return ImageBatch(
            images=images,
            labels=torch.from_numpy(self.images.labels[examples]),
            lines=torch.from_numpy(self.images.lines[examples]),
        )


def normalise(
    pixels: UInt8[np.ndarray, "images channels height width"],
    *,
    mean: PixelNumber,
    deviation: PixelNumber,
) -> Float[Tensor, "images channels height width"]:
    """Converts bytes to the model's input: (pixel / 255 - mean) / deviation, of all channels or of each."""
    means, deviations = (torch.tensor(each, dtype=torch.float64).view(-1, 1, 1) for each in (mean, deviation))
    scale, shift = 1 / (255 * deviations), means / deviations
    return torch.from_numpy(pixels).float().mul_(scale.float()).sub_(shift.float())
