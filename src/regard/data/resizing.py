"""Images of any size -> images of a model's size: resized as by Pillow, to the bit, and cropped.

Pillow resizes 8-bit images in two passes, of lines and of columns. Each rounds to 8 bits, and has weights in
fixed-point numbers (its file Resample.c). The second pass is that of columns, but since Pillow 13 that of
lines if an image becomes much lower than narrower; older versions give slightly other pixels there.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64, UInt8

from regard.errors import DataError

Resampling = Literal["bicubic", "bilinear"]
Resizing = Literal["shortest_edge", "square"]
PRECISION_BITS = 22  # of the fraction of Pillow's weights
Pixels = UInt8[np.ndarray, "channels height width"]
Fitted = UInt8[np.ndarray, "channels new_height new_width"]
MOST_RATIO = 100  # of the sides of an image, whose shorter one is resized to that of the model


@dataclass(frozen=True, kw_only=True)
class ImageFit:
    """How images of any size become `image_size` x `image_size` pixels.

    `resizing`: "shortest_edge" resizes so that the shorter side has `resized_size` pixels (None:
    `image_size`), "square" both sides, None neither. If `cropped`, the centre of the result is the image;
    what it lacks in size is black.
    """

    image_size: int
    resizing: Resizing | None
    resized_size: int | None
    resampling: Resampling
    cropped: bool

    def __call__(self, image: Pixels, resize: "Resize | None" = None) -> Fitted:
        """The image as the model reads it; of another size if neither resizing nor cropping gives that.

        `resize`: what resizes it; None is `resized`.
        """
        height, width = image.shape[1:]
        resize, size = resize or resized, self.resized_size or self.image_size
        if self.resizing == "square":
            image = resize(image, size, size, self.resampling)
        elif self.resizing == "shortest_edge":
            short = min(height, width)
            image = resize(
                image, int(size * height / short), int(size * width / short), self.resampling
            )  # as in transformers, the longer side is rounded down
        return center_cropped(image, self.image_size) if self.cropped else image


Resize = Callable[[Pixels, int, int, Resampling], Fitted]


def refuse_narrow(height: int, width: int, name: str) -> None:
    """Raises a DataError if one side of an image is more than MOST_RATIO times the other."""
    short, long = sorted((height, width))
    if not 0 < long <= MOST_RATIO * short:
        raise DataError(
            f"{name}: images of {height} x {width} pixels are too narrow",
            f"crop them: one side may be at most {MOST_RATIO} times the other",
        )


def resized(image: Pixels, height: int, width: int, resampling: Resampling) -> Fitted:
    """The image with `height` x `width` pixels, as `PIL.Image.resize` gives it."""
    old_height, old_width = image.shape[1:]
    columns_first = old_height - height > max(0, 2 * (old_width - width))
    for axis in (1, 2) if columns_first else (2, 1):
        image = _resized_along(image, axis, (height, width)[axis - 1], resampling)
    return image


def _resized_along(image: Pixels, axis: int, length: int, resampling: Resampling) -> Fitted:
    """The image with columns (axis 1) or lines (axis 2) of this length."""
    if image.shape[axis] == length:
        return image
    weights, pixels = _weights(image.shape[axis], length, resampling), image.astype(np.float64)
    sums = weights @ pixels if axis == 1 else pixels @ weights.T  # whole numbers, which are exact
    rounded = np.floor((sums + 2 ** (PRECISION_BITS - 1)) / 2**PRECISION_BITS)
    return np.clip(rounded, 0, 255).astype(np.uint8)


def center_cropped(image: Pixels, size: int) -> UInt8[np.ndarray, "channels {size} {size}"]:
    """The centre of an image, `size` x `size` pixels; where the image is smaller, with black around it."""
    for axis in (1, 2):
        length = image.shape[axis]
        if length < size:
            before = math.ceil((size - length) / 2)
            widths = [(0, 0)] * axis + [(before, size - length - before)] + [(0, 0)] * (2 - axis)
            image = np.pad(image, widths)
        else:
            start = (length - size) // 2
            image = image.take(range(start, start + size), axis)
    return image


@functools.lru_cache(maxsize=8)
def _weights(
    length: int, new_length: int, resampling: Resampling
) -> Float64[np.ndarray, "{new_length} {length}"]:
    """The weight of each pixel of a line in each pixel of the resized line, times 2^22, rounded."""
    scale = length / new_length
    stretch = max(scale, 1.0)  # the filter is as wide as the pixels that become one
    kernel, support = {"bicubic": (_bicubic, 2.0), "bilinear": (_bilinear, 1.0)}[resampling]
    support *= stretch
    weights = np.zeros((new_length, length))
    for place in range(new_length):
        center = (place + 0.5) * scale
        first = max(int(center - support + 0.5), 0)
        last = min(int(center + support + 0.5), length)
        row = kernel((np.arange(first, last) - center + 0.5) * (1 / stretch))
        weights[place, first:last] = row / np.cumsum(row)[-1]  # a sum from left to right, as in C
    return np.trunc(weights * 2**PRECISION_BITS + np.where(weights < 0, -0.5, 0.5))


def _bicubic(x: Float64[np.ndarray, " pixels"]) -> Float64[np.ndarray, " pixels"]:
    """Keys' cubic with a = -0.5 (Keys 1981, equation 15)."""
    a, x = -0.5, np.abs(x)
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _bilinear(x: Float64[np.ndarray, " pixels"]) -> Float64[np.ndarray, " pixels"]:
    return np.maximum(1.0 - np.abs(x), 0.0)
