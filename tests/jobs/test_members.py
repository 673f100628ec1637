"""Compressed files of several members: each line is in one part, other tools agree, damage is named."""

import bz2
import functools
import gzip
import importlib.util
import itertools
import lzma
import random
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, MissingExtra
from regard.jobs import members
from regard.jobs.cuts import divided
from regard.jobs.inputs import find_inputs, read_piece
from regard.jobs.merge import merge
from regard.jobs.plan import read_plan
from regard.jobs.shard import run_shard


def zstd(content):
    return pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True).compress(content)


PACKED = {  # the members of one byte are packed once: xz takes a millisecond for each
    name: functools.lru_cache(4096)(pack)
    for name, pack in {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}.items()
}
SUFFIXES = pytest.mark.parametrize("suffix", PACKED)
DRAW = random.Random(5)
TEXT = "".join(f"{n} {DRAW.getrandbits(200):x}\n" for n in range(3000)).encode()


def write(path, contents):
    pack = PACKED[path.suffix[1:]]
    path.write_bytes(b"".join(map(pack, contents)))
    [file] = find_inputs([str(path)])
    return file


def blocks(content, size):
    return [content[begin : begin + size] for begin in range(0, len(content), size)]


def read(file, part_bytes):
    file = divided(file, part_bytes)
    return file, [list(read_piece(file, *borders)) for borders in file.ranges(part_bytes)]


@SUFFIXES
@pytest.mark.parametrize("size", [1, 700, 10_000])
def test_a_file_is_cut_between_members_and_loses_no_line(tmp_path, suffix, size):
    text = TEXT[:3000] if size == 1 else TEXT
    contents = blocks(text, size)
    file, parts = read(write(tmp_path / f"lines.{suffix}", contents), 3000)
    assert list(itertools.chain(*parts)) == text.splitlines(keepends=True)
    begins = {0, *itertools.accumulate(len(PACKED[suffix](each)) for each in contents)}
    assert {*file.cuts} <= begins
    sizes = [end - begin for begin, end in file.ranges(3000)]
    assert len(sizes) > 3
    most = 3000 + max(len(PACKED[suffix](each)) for each in contents)
    assert all(3000 <= each <= most for each in sizes[:-1])


LINES = st.lists(st.sampled_from([b"\n", b"a\n", b"\xc3\xa4 b\n", b"x" * 40, b"\r\n", b""]), max_size=30)


@given(
    contents=LINES, suffix=st.sampled_from(["gz", "bz2", "xz"]), size=st.integers(1, 90), bom=st.booleans()
)
def test_each_line_is_in_one_part_wherever_members_end(tmp_path_factory, contents, suffix, size, bom):
    path = tmp_path_factory.mktemp("input") / f"lines.{suffix}"
    _, parts = read(write(path, [b"\xef\xbb\xbf" * bom, *contents]), size)
    assert list(itertools.chain(*parts)) == b"".join(contents).splitlines(keepends=True)


@pytest.mark.parametrize("suffix", ["gz", "xz"])
def test_zeros_may_follow_a_member(tmp_path, suffix):
    path = tmp_path / f"lines.{suffix}"
    path.write_bytes(PACKED[suffix](b"a\nb") + bytes(20_000) + PACKED[suffix](b"c\n") + bytes(8))
    [file] = find_inputs([str(path)])
    file, parts = read(file, 50)
    assert (parts, len(file.cuts)) == ([[b"a\n", b"bc\n"], []], 1)


@SUFFIXES
def test_one_large_member_is_read_whole(tmp_path, suffix):
    file, parts = read(write(tmp_path / f"lines.{suffix}", [TEXT]), 1000)
    assert file.cuts == ()
    assert parts == [TEXT.splitlines(keepends=True)]


@SUFFIXES
def test_bytes_that_look_like_a_member_are_none(tmp_path, suffix):
    magic = members.COMPRESSIONS[f".{suffix}"].magic
    noise = [DRAW.randbytes(3000) + magic + DRAW.randbytes(50) + b"\n" for _ in range(6)]  # stored as it is
    file, parts = read(write(tmp_path / f"lines.{suffix}", noise), 1000)
    assert b"".join(itertools.chain(*parts)) == b"".join(noise)
    assert len(file.cuts) == 5


@SUFFIXES
@pytest.mark.parametrize("damage", ["changed", "cut", "beginning"])
def test_a_damaged_member_is_named_by_its_place(tmp_path, suffix, damage):
    contents = blocks(TEXT, 20_000)
    path = tmp_path / f"lines.{suffix}"
    file = divided(write(path, contents), 5000)
    begins = [0, *itertools.accumulate(len(PACKED[suffix](each)) for each in contents)]
    content = bytearray(path.read_bytes())
    place = begins[-3 if damage == "changed" else -2]
    match damage:
        case "changed":
            content[place + 4000 : place + 4020] = bytes(20)
        case "cut":
            del content[-8:]
        case "beginning":
            content[place] ^= 255
    path.write_bytes(content)
    [changed] = find_inputs([str(path)])
    file = replace(changed, cuts=file.cuts)
    good = [list(read_piece(file, *borders)) for borders in itertools.islice(file.ranges(5000), 3)]
    assert b"".join(itertools.chain(*good)) == TEXT[: len(b"".join(itertools.chain(*good)))]
    named = f"lines.{suffix}: the compressed file is cut short or damaged, in its member at byte {place:,}"
    with pytest.raises(DataError) as error:
        [list(read_piece(file, *borders)) for borders in file.ranges(5000)]
    assert named in error.value.message
    whole = replace(file, cuts=())
    with pytest.raises(DataError) as error:
        list(read_piece(whole, 0, whole.size))
    assert named in error.value.message


@pytest.mark.parametrize("suffix", [each for each in PACKED if each != "xz"])  # whose index has the blocks
def test_a_cut_that_is_no_member_is_refused(tmp_path, suffix):
    file = write(tmp_path / f"lines.{suffix}", blocks(TEXT, 20_000))
    wrong = replace(file, cuts=(file.size // 2,))
    for borders in wrong.ranges(1):
        with pytest.raises(DataError, match="in its member at byte"):
            list(read_piece(wrong, *borders))


def test_other_programs_write_members_that_are_found(tmp_path):
    """bgzip's blocks, as Biopython writes them; frames of zstd and streams of xz, one behind the other."""
    (tmp_path / "a").write_bytes(TEXT[:80_000])
    (tmp_path / "b").write_bytes(TEXT[80_000:])
    tested = 0
    for name, suffix in (("zstd", "zst"), ("xz", "xz"), ("bzip2", "bz2"), ("gzip", "gz")):
        if shutil.which(name) is None or (name == "zstd" and not _has("zstandard")):
            continue
        with open(tmp_path / f"lines.{suffix}", "wb") as target:
            for part in ("a", "b"):
                subprocess.run([name, "-c", str(tmp_path / part)], stdout=target, check=True)
        [file] = find_inputs([str(tmp_path / f"lines.{suffix}")])
        file, parts = read(file, 20_000)
        assert (len(file.cuts), b"".join(itertools.chain(*parts))) == (1, TEXT)
        tested += 1
    if _has("Bio"):
        from Bio import bgzf  # pyright: ignore[reportMissingImports]

        with bgzf.open(str(tmp_path / "blocks.gz"), "wb") as target:
            target.write(TEXT)
        [file] = find_inputs([str(tmp_path / "blocks.gz")])
        file, parts = read(file, 1000)
        assert (len(file.cuts), b"".join(itertools.chain(*parts))) == (len(TEXT) // 65280 + 1, TEXT)
        tested += 1
    if not tested:
        pytest.skip("no program that compresses is installed")


def _has(package):
    return importlib.util.find_spec(package) is not None


@pytest.mark.parametrize("shards", [1, 3])
def test_the_output_of_members_is_that_of_one_process(planned, storage, tmp_path, shards):
    write(tmp_path / "lines.gz", blocks(TEXT, 4000))
    plan = planned(inputs=find_inputs([str(tmp_path / "lines.gz")]), part_bytes=9000)
    agreed = plan.agreed(storage)
    for number in range(1, shards + 1):
        run_shard(
            plan.agreed(storage),
            storage,
            (number, shards),
            lambda lines, first: [f"{line.upper()}\n" for line in lines],
            failure=lambda line, reason: "\n",
            engine={},
        )
    assert agreed == read_plan(storage)
    assert len(list(agreed.parts())) > 5
    assert merge(agreed, storage, str(tmp_path / "merged")) == 3000
    assert (tmp_path / "merged").read_bytes() == TEXT.upper()


def test_the_search_for_members_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(members, "LONGEST", 2000)
    monkeypatch.setattr(members, "SEARCHED", 500)
    file = write(tmp_path / "lines.gz", [TEXT[:20_000], TEXT[20_000:21_000], TEXT[21_000:]])
    assert divided(file, 1000).cuts == ()
    assert len(divided(file, 11_000).cuts) == 1


def test_a_missing_package_is_named(tmp_path):
    if _has("zstandard"):
        pytest.skip("zstandard is installed")
    (tmp_path / "lines.zst").write_bytes(members.COMPRESSIONS[".zst"].magic)
    [file] = find_inputs([str(tmp_path / "lines.zst")])
    with pytest.raises(MissingExtra, match=r"reading \.zst files needs zstandard") as error:
        list(read_piece(file, 0, file.size))
    assert error.value.hint == "pip install 'regard[jobs]'"
