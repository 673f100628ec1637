"""IDX and NPZ files are read exactly; damaged and inconsistent files are refused."""

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from regard.data import memory as memory_file
from regard.data.arrays import read_array, read_npz
from regard.errors import DataError

NUMBERS = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_an_idx_file_is_recognised_by_its_content(tmp_path, packed):
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx(NUMBERS)) if packed else idx(NUMBERS))
    assert np.array_equal(read_array(path, ""), NUMBERS)


@pytest.mark.parametrize("compressed", [False, True])
def test_an_npz_file_is_read_by_the_name_of_its_array(tmp_path, compressed):
    path = tmp_path / "images"
    with path.open("wb") as file:
        (np.savez_compressed if compressed else np.savez)(file, x_train=NUMBERS, y_train=np.ones(2))
    assert np.array_equal(read_array(path, "x_train"), NUMBERS)
    with pytest.raises(DataError, match="no array 'images'") as refusal:
        read_array(path, "images")
    assert "x_train, y_train" in refusal.value.hint


def test_what_unpacks_to_more_than_half_of_the_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_file, "total_memory", lambda: 2 * 10**6)
    large = np.zeros(10**7, np.uint8)
    np.savez_compressed(tmp_path / "a.npz", small=NUMBERS, large=large)
    (tmp_path / "a.idx.gz").write_bytes(gzip.compress(idx(large)))
    assert np.array_equal(read_array(tmp_path / "a.npz", "small"), NUMBERS)
    tracemalloc.start()
    for read in (
        lambda: read_array(tmp_path / "a.npz", "large"),
        lambda: read_npz(tmp_path / "a.npz"),
        lambda: read_array(tmp_path / "a.idx.gz", ""),
    ):
        with pytest.raises(DataError, match=r"holds 10,000,.* more than 1,000,000, half of this machine's"):
            read()
    assert tracemalloc.get_traced_memory()[1] < 2 * 10**6
    tracemalloc.stop()


GOOD = idx(NUMBERS)
NPZ_WITHOUT_END = b"PK\x03\x04" + b"\0" * 40


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends 4 bytes too early"),
        (GOOD[:3], "ends 1 bytes too early"),
        (GOOD[:9], "too early"),
        (GOOD[:-1], "ends 1 bytes too early"),
        (GOOD + b"x", "more than the 2 x 3 x 4 bytes"),
        (b"\1" + GOOD[1:], "neither IDX nor NPZ"),
        (b"<!DOCTYPE html>", "neither IDX nor NPZ"),
        (b"\x89PNG\r\n\x1a\n", "is one PNG or JPEG image"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "is one PNG or JPEG image"),
        (struct.pack(">HBB", 0, 8, 0), "neither IDX nor NPZ"),
        (idx(NUMBERS, 0x0D), "type 0x0d"),
        (struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1) + b"x" * 9, "half of this machine"),
        (struct.pack(">HBB3I", 0, 8, 3, 2, 2, 9999) + b"x" * 9, "too early"),
        (gzip.compress(GOOD, mtime=0)[:-9], "damaged"),
        (gzip.compress(GOOD, mtime=0)[:-6] + b"\0" * 6, "damaged"),
        (b"\x1f\x8b" + b"\0" * 20, "damaged"),
        (NPZ_WITHOUT_END, "damaged"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refusal:
        read_array(path, "images")
    assert str(path) in refusal.value.message
    assert refusal.value.hint


def test_damage_anywhere_in_a_packed_file_is_found(tmp_path):
    path = tmp_path / "images"
    packed = bytearray(gzip.compress(idx(np.arange(250, dtype=np.uint8)), mtime=0))
    for place in range(12, len(packed)):  # before it are times and names, which do not matter
        broken = bytearray(packed)
        broken[place] ^= 0x55
        path.write_bytes(broken)
        with pytest.raises(DataError):
            read_array(path, "images")


def test_no_pickle_is_read(tmp_path):
    path = tmp_path / "images.npz"
    np.savez(path, images=np.array([{}, []], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        read_array(path, "images")


def test_what_is_no_file_is_reported(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_array(tmp_path / "images", "images")
    with pytest.raises(DataError, match="is a folder"):
        read_array(tmp_path, "images")


def test_all_arrays_of_an_npz_file_can_be_had(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, a=np.arange(3), b=np.ones((2, 2)))
    arrays = read_npz(path)
    assert list(arrays) == ["a", "b"]
    assert np.array_equal(arrays["a"], np.arange(3))


@pytest.mark.parametrize(
    ("content", "message"),
    [(NPZ_WITHOUT_END, "damaged"), (GOOD, "not an NPZ file"), (b"", "not an NPZ file")],
)
def test_what_has_no_arrays_by_name_is_refused(tmp_path, content, message):
    path = tmp_path / "arrays.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_npz(path)
