"""Pieces of input files: each line is in exactly one, whatever their size; changed files are refused."""

import bz2
import gzip
import itertools
import lzma
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.files import MAX_LINE_BYTES
from regard.errors import DataError
from regard.jobs.inputs import find_inputs, read_piece, refuse_changed

LINES = st.lists(st.sampled_from([b"\n", b"a\n", b"\r\n", b"\xc3\xa4 b\n", b"x" * 40 + b"\n", b"\xff\n"]))


def pieces(file, size):
    return [
        list(read_piece(file, begin, min(begin + size, file.size))) for begin in range(0, file.size, size)
    ]


@given(lines=LINES, last=st.sampled_from([b"", b"end", b"\r"]), size=st.integers(1, 60), bom=st.booleans())
def test_each_line_is_in_exactly_one_piece(tmp_path_factory, lines, last, size, bom):
    path = tmp_path_factory.mktemp("input") / "lines.txt"
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + b"".join(lines) + last)
    [file] = find_inputs([str(path)])
    found = pieces(file, size)
    assert list(itertools.chain(*found)) == [*lines, *([last] if last else [])]


@pytest.mark.parametrize(
    ("suffix", "opened"), [("gz", gzip.open), ("bz2", bz2.open), ("xz", lzma.open), ("txt", open)]
)
def test_compressed_files_are_read_whole(tmp_path, suffix, opened):
    with opened(tmp_path / f"lines.{suffix}", "wb") as file:
        file.write(b"a\n\nb")
    [found] = find_inputs([str(tmp_path / f"lines.{suffix}")])
    assert (found.compression is not None) == (suffix != "txt")
    assert list(read_piece(found, 0, found.size)) == [b"a\n", b"\n", b"b"]


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_compressed_file_is_named(tmp_path, suffix, pack, damage):
    content = pack.compress(bytes(range(256)) * 400)
    half = len(content) // 2
    path = tmp_path / f"lines.{suffix}"
    path.write_bytes(content[:half] if damage == "cut" else content[:half] + b"\0\xff" * 20)
    [file] = find_inputs([str(path)])
    with pytest.raises(DataError, match=f"lines.{suffix}: the compressed file is cut short or damaged"):
        list(read_piece(file, 0, file.size))


def test_a_line_without_end_is_refused(tmp_path):
    (tmp_path / "long.txt").write_bytes(b"a" * (MAX_LINE_BYTES + 2))
    [file] = find_inputs([str(tmp_path / "long.txt")])
    with pytest.raises(DataError, match=r"a line of more than 16 MiB"):
        list(read_piece(file, 0, file.size))


def test_patterns_name_each_file_once_in_order(tmp_path):
    for name in ("b.txt", "a.txt", "c.other"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "folder.txt").mkdir()
    found = find_inputs([f"{tmp_path}/*.txt", f"{tmp_path}/a.txt", f"{tmp_path}/c.other"])
    assert [os.path.basename(file.url) for file in found] == ["a.txt", "b.txt", "c.other"]


@pytest.mark.parametrize("pattern", ["none", "*.none", "nowhere/*"])
def test_a_pattern_without_a_file_is_named(tmp_path, pattern):
    with pytest.raises(DataError, match="there is no such file"):
        find_inputs([f"{tmp_path}/{pattern}"])


def test_an_unknown_kind_of_address_is_named():
    with pytest.raises(DataError, match=r"nothing://bucket/file"):
        find_inputs(["nothing://bucket/file"])


@pytest.mark.parametrize("change", ["size", "time", "gone"])
def test_a_changed_file_is_refused(tmp_path, change):
    path = tmp_path / "lines.txt"
    path.write_text("a\n")
    [file] = find_inputs([str(path)])
    refuse_changed(file)
    match change:
        case "size":
            path.write_text("a\nb\n")
        case "time":
            os.utime(path, (1, 1))
        case "gone":
            path.unlink()
    with pytest.raises(DataError, match="is gone" if change == "gone" else "has changed since"):
        refuse_changed(file)
