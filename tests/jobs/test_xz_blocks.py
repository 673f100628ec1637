"""Files of xz are cut between the blocks of their streams, and each part is checked as a file of its own."""

import io
import itertools
import lzma
import random
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.jobs import xz_blocks
from regard.jobs.cuts import divided
from regard.jobs.inputs import find_inputs, read_piece
from regard.jobs.xz_blocks import Block, XzStream, read_streams

DRAW = random.Random(7)
TEXT = "".join(f"{n} {DRAW.getrandbits(200):x}\n" for n in range(3000)).encode()


def stream_of(contents, check=lzma.CHECK_CRC64):
    """A stream with a block for each content, as `xz --block-size` writes: made of the blocks of streams."""
    blocks, raw, place = [], b"", 12
    flags = lzma.compress(b"", check=check)[6:8]
    for content in contents:
        packed = lzma.compress(content, check=check)
        [stream] = read_streams(io.BytesIO(packed), len(packed)) or []
        for block in stream.blocks:
            blocks.append(Block(place=place, unpadded=block.unpadded, decoded=block.decoded))
            raw += packed[block.place : block.end]
            place = blocks[-1].end
    before, after = XzStream(begin=0, end=0, flags=flags, blocks=blocks).framed(blocks)
    return before + raw + after


def pieces(path, part_bytes):
    [file] = find_inputs([str(path)])
    file = divided(file, part_bytes)
    return file, [list(read_piece(file, *borders)) for borders in file.ranges(part_bytes)]


CONTENTS = st.lists(
    st.lists(st.sampled_from([b"\n", b"a\n", b"x" * 40, b"\xc3\xa4 b\n", b"\r\n"]), max_size=8), max_size=4
)


@given(streams=CONTENTS, size=st.integers(1, 300), padding=st.integers(0, 3), check=st.integers(0, 1))
def test_each_line_is_in_one_part(tmp_path_factory, streams, size, padding, check):
    path = tmp_path_factory.mktemp("input") / "lines.xz"
    packed = [stream_of(each, (lzma.CHECK_CRC64, lzma.CHECK_NONE)[check]) for each in streams]
    path.write_bytes(bytes(4 * padding).join(packed))
    whole = b"".join(itertools.chain(*streams))
    if not padding:  # which lzma does not know
        assert lzma.decompress(path.read_bytes() or lzma.compress(b"")) == whole
    _, parts = pieces(path, size)
    assert list(itertools.chain(*parts)) == whole.splitlines(keepends=True)


@pytest.mark.parametrize("check", ["none", "crc32", "crc64", "sha256"])
def test_the_blocks_that_xz_writes_are_found(tmp_path, check):
    if shutil.which("xz") is None:
        pytest.skip("xz is not installed")
    (tmp_path / "lines").write_bytes(TEXT)
    command = ["xz", "-T2", "--block-size=20000", f"--check={check}", "-k", str(tmp_path / "lines")]
    subprocess.run(command, check=True)
    (tmp_path / "two.xz").write_bytes((tmp_path / "lines.xz").read_bytes() * 2)
    for name, times in (("lines.xz", 1), ("two.xz", 2)):
        file, parts = pieces(tmp_path / name, 10_000)
        assert b"".join(itertools.chain(*parts)) == TEXT * times
        assert len(file.cuts) == len(TEXT) // 20_000 * times
        sizes = [end - begin for begin, end in file.ranges(10_000)]
        assert all(10_000 <= each < 25_000 for each in sizes[:-1])


def test_a_damaged_block_is_named_and_the_other_parts_are_read(tmp_path):
    path = tmp_path / "lines.xz"
    content = bytearray(stream_of([TEXT[begin : begin + 20_000] for begin in range(0, len(TEXT), 20_000)]))
    path.write_bytes(content)
    [file] = find_inputs([str(path)])
    file = divided(file, 5000)
    assert len(file.cuts) == len(TEXT) // 20_000
    content[file.cuts[2] + 5000] ^= 255
    path.write_bytes(content)
    file = replace(find_inputs([str(path)])[0], cuts=file.cuts)
    good = []
    for number, borders in enumerate(file.ranges(5000)):
        if number == 3:
            with pytest.raises(DataError, match=f"in its member at byte {file.cuts[2]:,}"):
                list(read_piece(file, *borders))
        else:
            good.append(b"".join(read_piece(file, *borders)))
    assert all(each in TEXT for each in good)
    assert sum(map(len, good)) > len(TEXT) - 25_000


@pytest.mark.parametrize("damage", ["index", "footer", "header", "cut", "more"])
def test_a_file_without_a_good_index_is_read_from_its_beginning_and_refused(tmp_path, damage):
    content = bytearray(stream_of([TEXT[:50_000], TEXT[50_000:]]))
    match damage:
        case "index":
            content[-20] ^= 1
        case "footer":
            content[-5] ^= 1
        case "header":
            content[7] ^= 1
        case "cut":
            del content[-30:]
        case "more":
            content += b"more"
    assert read_streams(io.BytesIO(content), len(content)) is None
    (tmp_path / "lines.xz").write_bytes(content)
    with pytest.raises(DataError, match=r"lines\.xz: the compressed file is cut short or damaged"):
        pieces(tmp_path / "lines.xz", 1000)


def test_many_streams_are_members(tmp_path, monkeypatch):
    monkeypatch.setattr(xz_blocks, "MOST_STREAMS", 2)
    (tmp_path / "lines.xz").write_bytes(b"".join(stream_of([TEXT[:3000], TEXT[3000:6000]]) for _ in range(3)))
    file, parts = pieces(tmp_path / "lines.xz", 500)
    assert len(file.cuts) == 2
    assert b"".join(itertools.chain(*parts)) == TEXT[:6000] * 3
