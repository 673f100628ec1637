"""Image files (PNG, JPEG, WebP, GIF, BMP) -> pixels, by Pillow.

Pixels are those that `load_image` of transformers gives. The content of a file decides about its format,
whatever its name ends with. An image is turned upright by its EXIF orientation. Grey, palette and CMYK images
become RGB. Transparency is left out: a pixel has the colour that is stored with it. Of 16 bits the upper 8
are kept, where `load_image` makes most grey ones white. Of an animation the first image is read.
"""

import contextlib
import struct
import threading
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8

from regard.data.resizing import Fitted, ImageFit, Resampling, refuse_narrow
from regard.errors import DataError, MissingExtra

FORMATS = "PNG", "JPEG", "WEBP", "GIF", "BMP"  # plugins of Pillow that may see a file
SUFFIXES = ".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"
STARTS = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"BM"  # of files; WebP is RIFF....WEBP
MAX_PIXELS = 2**27  # of a file; decoded they take 400 MB
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # of Pillow, by channels
CONVERT = "convert it to PNG or JPEG"
OPENING = threading.Lock()  # filters of warnings belong to the process
DAMAGE = (  # what Pillow raises for damaged files
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    EOFError,
    MemoryError,
    RuntimeError,
    struct.error,
    zlib.error,
)
Pixels = UInt8[np.ndarray, "channels height width"]


@runtime_checkable
class PillowImage(Protocol):
    """An image of Pillow; Pillow need not be installed to ask for it."""

    mode: str
    size: tuple[int, int]

    def convert(self, mode: str) -> Any: ...

    def getexif(self) -> Any: ...


def is_image_file(path: Path) -> bool:
    """True if the content of a file begins as that of an image does."""
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except OSError:
        return False
    return start.startswith(STARTS) or (start[:4] == b"RIFF" and start[8:] == b"WEBP")


def has_image_name(path: Path) -> bool:
    """True if the name of a file ends as those of images do."""
    return path.suffix.lower() in SUFFIXES


def image_files(folder: Path) -> list[Path]:
    """The files with names of images in a folder and in those within, sorted; hidden ones are left out.

    Raises:
        DataError: there is none, or the folder cannot be read.
    """
    try:
        found = sorted(each for each in folder.rglob("*") if has_image_name(each) and each.is_file())
    except OSError as error:
        raise DataError(f"{folder}: {error.strerror}", "give a folder that can be read") from None
    found = [
        each for each in found if not any(part.startswith(".") for part in each.relative_to(folder).parts)
    ]
    if not found:
        raise DataError(f"{folder}: no image in this folder", f"images end with {', '.join(SUFFIXES)}")
    return found


def read_image_file(path: Path, channels: int, fit: ImageFit | None = None) -> Pixels:
    """The pixels of an image file, with 1 (grey), 3 or 4 channels; resized and cropped by `fit`.

    Raises:
        DataError: the file is missing, damaged, too large or no image.
        MissingExtra: Pillow is not installed.
    """
    with _opened(path) as image:
        return pixels_of(image, channels, fit, str(path))


def size_and_channels(path: Path) -> tuple[int, int, int]:
    """Height, width, and 1 channel of a grey image or 3 of others, of which only the header is read.

    Raises:
        DataError: as for `read_image_file`, as far as the header tells it.
    """
    with _opened(path) as image:
        width, height = image.size
        return height, width, 1 if image.mode in ("1", "L", "LA", "I", "I;16", "I;16B") else 3


def pixels_of(image: Any, channels: int, fit: ImageFit | None = None, name: str = "the image") -> Pixels:
    """The pixels of an image of Pillow, as `read_image_file` gives those of a file.

    Raises:
        DataError: it cannot be decoded or is too large, or its channels are not 1, 3 or 4.
    """
    _, image_ops = _pillow()
    if channels not in MODES:
        raise DataError(
            f"{name}: an image file cannot have {channels} channels", "give an array of the model's channels"
        )
    width, height = image.size
    if not 0 < width * height <= MAX_PIXELS:
        raise DataError(
            f"{name}: {width:,} x {height:,} pixels are too many, {MAX_PIXELS:,} at most", "make it smaller"
        )
    with _damage_named(name):
        pixels = np.asarray(_convertible(image_ops.exif_transpose(image)).convert(MODES[channels]))
    pixels = pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)
    if fit is not None:
        refuse_narrow(height, width, name)
        pixels = fit(pixels, resized_by_pillow)
    return np.ascontiguousarray(pixels)


def resized_by_pillow(image: Pixels, height: int, width: int, resampling: Resampling) -> Fitted:
    """The same pixels as those of `regard.data.resizing.resized` with Pillow 13, many times faster."""
    pillow, _ = _pillow()
    code = {"bicubic": pillow.Resampling.BICUBIC, "bilinear": pillow.Resampling.BILINEAR}[resampling]
    channels = [pillow.fromarray(channel).resize((width, height), code) for channel in image]
    return np.stack([np.asarray(channel) for channel in channels])


def _convertible(image: Any) -> Any:
    """An image that Pillow converts well: it would make each grey value above 255 of 16 bits white."""
    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA")  # the same colours, without a warning
    if not image.mode.startswith("I"):
        return image
    pillow, _ = _pillow()
    return pillow.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The image of a file, of which Pillow has read the header."""
    pillow, _ = _pillow()
    if path.is_dir():
        raise DataError(f"{path} is a folder", "name the file in it")
    if path.is_file() and not is_image_file(path):
        raise DataError(f"{path}: not a {', '.join(FORMATS)} image, in spite of its name", CONVERT)
    with _damage_named(str(path)), OPENING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of size, which MAX_PIXELS bounds, and of damaged metadata
        try:
            image = pillow.open(path, formats=FORMATS)
        except pillow.DecompressionBombError:
            raise DataError(
                f"{path}: more than {MAX_PIXELS:,} pixels, the most that are read", "make it smaller"
            ) from None
    with image:
        yield image


@contextlib.contextmanager
def _damage_named(name: str) -> Iterator[None]:
    """Errors of decoding as DataErrors."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{name}: no such file", "check the path") from None
    except PermissionError as error:
        raise DataError(f"{name}: {error.strerror}", "check the file and its permissions") from None
    except DAMAGE as error:
        if type(error).__name__ == "UnidentifiedImageError":
            raise DataError(
                f"{name}: damaged: its header cannot be read", f"copy it again, or {CONVERT}"
            ) from None
        raise DataError(f"{name}: damaged: {error}", f"copy it again, or {CONVERT}") from None


def _pillow() -> tuple[Any, Any]:
    """The modules `PIL.Image` and `PIL.ImageOps`, imported when an image file is read."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtra("Pillow", "images", "reading image files") from None
    return Image, ImageOps
