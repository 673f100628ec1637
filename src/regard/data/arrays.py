"""Reads numeric arrays from IDX files (plain or gzipped) and NPZ files; pickled arrays are refused."""

import gzip
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from regard.data.memory import refuse_beyond_memory
from regard.errors import DataError

BYTES = 0x08  # the IDX type code of unsigned bytes, the only type that is supported


def read_array(path: Path, array: str) -> np.ndarray:
    """Reads the array of an IDX file, or the array named `array` of an NPZ file.

    The format is recognised by the first bytes.

    Raises:
        DataError: the file is missing, damaged or has another format, or the array is missing.
    """
    with _open(path) as file:
        start = file.read(4)
        file.seek(0)
        if start[:2] == b"PK":
            return _read_npz(file, path, array)
        if start[:2] == b"\x1f\x8b":
            with gzip.open(file) as unpacked:
                return _read_idx(unpacked, path)
        return _read_idx(file, path)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Reads all arrays of an NPZ file, by name.

    Raises:
        DataError: the file is missing, damaged or has another format.
    """
    with _open(path) as file:
        if file.read(2) != b"PK":
            raise DataError(f"{path}: not an NPZ file", "write it with numpy.savez")
        file.seek(0)
        refuse_beyond_memory(sum(_unpacked_sizes(file).values()), path)
        with np.load(file, allow_pickle=False) as arrays:
            names = list(arrays.files)
        return {name: _read_npz(file, path, name) for name in names}


def shape_of(array: np.ndarray) -> str:
    """The shape of an array for messages: "28 x 28"."""
    return " x ".join(map(str, array.shape)) or "nothing"


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader]:
    """Opens a file; errors while reading it become DataErrors."""
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise DataError(f"{path}: no such file", "check the path, or name a data set: NAME:FILE") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder", "name the file in it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, struct.error) as error:
        raise DataError(f"{path}: damaged: {error}", "copy the file again") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}", "check the file and its permissions") from None


def _read_idx(file: io.BufferedIOBase, path: Path) -> np.ndarray:
    """Reads an IDX file: two zero bytes, type, number of axes, the axes' lengths, then the numbers."""
    start = _read_exactly(file, 4, path)
    if start in (b"\x89PNG", *(b"\xff\xd8\xff" + bytes([each]) for each in range(0xC0, 0x100))):
        raise DataError(
            f"{path} is one PNG or JPEG image, and this reads many, from an IDX or NPZ file",
            "name a folder of images, or a table of their paths and labels",
        )
    zeros, kind, axes = struct.unpack(">HBB", start)
    if zeros or kind not in (0x08, 0x09, 0x0B, 0x0C, 0x0D, 0x0E) or not axes:
        raise DataError(
            f"{path}: neither IDX nor NPZ, nor an image that can be read",
            "IDX begins with two zero bytes, NPZ with PK; of images PNG, JPEG, WebP, GIF and BMP are read",
        )
    if kind != BYTES:
        raise DataError(
            f"{path}: IDX of type {kind:#04x}, not of bytes", "store it as unsigned bytes, type 0x08"
        )
    shape = struct.unpack(f">{axes}I", _read_exactly(file, 4 * axes, path))
    refuse_beyond_memory(math.prod(shape), path)
    content = _read_exactly(file, math.prod(shape), path)
    if file.read(1):
        raise DataError(
            f"{path}: has more than the {' x '.join(map(str, shape))} bytes that its header announces",
            "copy the file again",
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_exactly(file: io.BufferedIOBase, count: int, path: Path) -> bytearray:
    """Reads `count` bytes in blocks, so that a wrong length in a header allocates no memory."""
    content = bytearray()
    while part := file.read(min(count - len(content), 1 << 24)):
        content += part
    if len(content) < count:
        raise DataError(f"{path}: ends {count - len(content):,} bytes too early", "copy the file again")
    return content


def _unpacked_sizes(file: io.BufferedReader) -> dict[str, int]:
    """The unpacked size of each file in an NPZ file. NumPy reads no more than that."""
    with zipfile.ZipFile(file) as parts:
        sizes = {part.filename: part.file_size for part in parts.infolist()}
    file.seek(0)
    return sizes


def _read_npz(file: io.BufferedReader, path: Path, array: str) -> np.ndarray:
    try:
        refuse_beyond_memory(_unpacked_sizes(file).get(f"{array}.npy", 0), path)
        with np.load(file, allow_pickle=False) as arrays:
            if array not in arrays.files:
                raise DataError(f"{path} has no array {array!r}", f"its arrays are {', '.join(arrays.files)}")
            return arrays[array]
    except (ValueError, RuntimeError, MemoryError) as error:  # pickles, passwords, wrong headers
        raise DataError(f"{path}: array {array!r} cannot be read: {error}", "store plain numbers") from None
