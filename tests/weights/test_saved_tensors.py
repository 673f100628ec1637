"""Shards have the tensors of a whole file, for any number of processes; damaged ones are refused."""

import json
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from regard.errors import FolderError
from regard.weights.folder import write_folder
from regard.weights.saved_tensors import SavedTensors
from regard.weights.shards import ROWS, Shard, TensorPart, shard_name, shard_names
from regard.weights.tensors import read_tensors, write_tensors
from regard.weights.verified_folder import VerifiedFolder
from tests.weights.test_damaged import SEEDS, damaged

FILE = "model.safetensors"
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
TENSORS = {
    "matrix": torch.arange(21.0).reshape(7, 3),
    "half": torch.arange(4.0).reshape(2, 2).bfloat16(),
    "one": torch.tensor([[1.0, 2.0]]),
    "count": torch.tensor(5),
    "none": torch.zeros(0, 3),
}


def shards(tensors, count):
    """The shards of `count` processes, as `fully_shard` divides rows: the last may have fewer or none."""
    for rank in range(count):
        parts = {}
        for name, tensor in tensors.items():
            if tensor.ndim == 0:
                rows, first = tensor, 0
            else:
                most = -(-len(tensor) // count)
                first = min(rank * most, len(tensor))
                rows = tensor[first : first + most]
            if rank == 0 or (tensor.ndim and len(rows)):
                parts[name] = TensorPart(tensor=rows, shape=tuple(tensor.shape), first=first)
        yield Shard(parts)


def written(folder, tensors, count):
    folder.mkdir(exist_ok=True)
    paths = [folder / shard_name(FILE, number, count) for number in range(1, count + 1)]
    for path, shard in zip(paths, shards(tensors, count), strict=True):
        shard.write(path)
    return paths


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.sampled_from(DTYPES),
    st.integers(1, 6),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_any_rows_of_any_shards_are_those_of_the_tensor(tmp_path_factory, shape, dtype, count, ends):
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    folder = tmp_path_factory.mktemp("shards")
    saved = SavedTensors(written(folder, {"a": tensor}, count), sharded=True)
    assert saved.shapes == {"a": tuple(shape)}
    assert same(saved.read("a"), tensor)
    first, last = (min(end, shape[0]) for end in sorted(ends))
    assert same(saved.read_rows("a", first, last), tensor[first:last])


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_all_tensors_come_back_and_join_to_the_bytes_of_a_whole_file(tmp_path, count):
    paths = written(tmp_path, TENSORS, count)
    saved = SavedTensors(paths[::-1], sharded=True)  # in any order
    assert all(same(saved.read_all()[name], tensor) for name, tensor in TENSORS.items())
    write_tensors(tmp_path / "whole", TENSORS)
    saved.write_whole(tmp_path / "joined")
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()
    assert read_tensors(tmp_path / "joined").keys() == TENSORS.keys()


def test_the_numbers_of_a_joined_file_are_aligned_whatever_the_names_are(tmp_path):
    for name in ("a" * length for length in range(1, 10)):
        tensors = {name: torch.ones(2), "größe": torch.ones(1).bfloat16()}
        saved = SavedTensors(written(tmp_path, tensors, 2), sharded=True)
        write_tensors(tmp_path / "whole", tensors)
        saved.write_whole(tmp_path / "joined")
        assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_whole_file_is_read_by_rows_too(tmp_path):
    write_tensors(tmp_path / FILE, TENSORS)
    saved = SavedTensors([tmp_path / FILE])
    assert same(saved.read_rows("matrix", 2, 5), TENSORS["matrix"][2:5])
    assert same(saved.read("count"), TENSORS["count"])


def test_a_folder_with_shards_reads_like_one_with_a_file(tmp_path):
    files = {shard_name(FILE, number, 3): shard for number, shard in enumerate(shards(TENSORS, 3), start=1)}
    write_folder(tmp_path / "folder", files)
    folder = VerifiedFolder.open(tmp_path / "folder")
    assert folder.has_tensors(FILE)
    assert not folder.has_tensors("optimizer.safetensors")
    found = folder.read_tensors(FILE)
    assert all(same(found[name], tensor) for name, tensor in TENSORS.items())
    with pytest.raises(FolderError, match="has no optimizer"):
        folder.read_tensors("optimizer.safetensors")


def test_shards_that_are_together_larger_than_the_memory_are_refused_before_they_are_read(
    tmp_path, monkeypatch
):
    files = {shard_name(FILE, number, 2): shard for number, shard in enumerate(shards(TENSORS, 2), start=1)}
    write_folder(tmp_path / "folder", files)
    folder = VerifiedFolder.open(tmp_path / "folder")
    size = sum(path.stat().st_size for path in folder.tensor_files(FILE))
    monkeypatch.setattr("regard.data.folder_file.total_memory", lambda: size)
    assert folder.read_tensors(FILE).keys() == TENSORS.keys()
    monkeypatch.setattr("regard.data.folder_file.total_memory", lambda: size - 1)
    monkeypatch.setattr(SavedTensors, "read_all", lambda self: pytest.fail("they were read"))
    with pytest.raises(FolderError, match="and the others have"):
        folder.read_tensors(FILE)


def test_the_shards_of_a_file_are_as_many_as_each_name_says():
    for count in (1, 2, 3):
        names = [shard_name(FILE, number, count) for number in range(1, count + 1)]
        assert shard_names(FILE, ["a", *reversed(names), "z"]) == names


def test_a_missing_shard_is_named():
    names = [shard_name(FILE, number, 3) for number in (1, 3)]
    with pytest.raises(FolderError, match=r"model.shard-00002-of-00003.safetensors is missing"):
        shard_names(FILE, [*names, "config.json"])
    with pytest.raises(FolderError, match=r"of-00002.safetensors is not one of 3 shards"):
        shard_names(FILE, [shard_name(FILE, number, 3) for number in (1, 2, 3)] + [shard_name(FILE, 1, 2)])
    assert shard_names("optimizer.safetensors", names) == []


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (None, "does not have 'rows' in its metadata"),
        ({}, "differ in 'a'"),
        ({"a": {"first": 1, "shape": [4, 2]}}, "do not have each row of 'a' once"),
        ({"a": {"first": 3, "shape": [4, 2]}}, "do not have each row of 'a' once"),
        ({"a": {"first": 2, "shape": [5, 2]}}, "has shape"),
        ({"a": {"first": 2, "shape": [4, 3]}}, "is not a first row and a shape"),
        ({"a": {"first": -2, "shape": [4, 2]}}, "is not a first row and a shape"),
        ({"a": {"first": True, "shape": [4, 2]}}, "is not a first row and a shape"),
        ({"a": {"first": 2, "shape": [4, 2], "more": 1}}, "is not a first row and a shape"),
        ({"a": {"first": 10**30, "shape": [4, 2]}}, "do not have each row of 'a' once"),
        ({"a": 7}, "is not a first row and a shape"),
    ],
)
def test_shards_that_do_not_make_a_tensor_are_refused(tmp_path, rows, words):
    tensor = torch.arange(8.0).reshape(4, 2)
    paths = written(tmp_path, {"a": tensor}, 2)
    save_file({"a": tensor[2:].clone()}, paths[1], None if rows is None else {ROWS: json.dumps(rows)})
    with pytest.raises(FolderError, match=words):
        SavedTensors(paths, sharded=True)


def test_shards_of_different_types_are_refused(tmp_path):
    tensor = torch.arange(8.0).reshape(4, 2)
    paths = written(tmp_path, {"a": tensor}, 2)
    place = {ROWS: json.dumps({"a": {"first": 2, "shape": [4, 2]}})}
    save_file({"a": tensor[2:].double()}, paths[1], place)
    with pytest.raises(FolderError, match="F32 and F64"):
        SavedTensors(paths, sharded=True)


@pytest.mark.parametrize("count", [2, 3])
def test_a_number_is_in_one_shard(tmp_path, count):
    part = TensorPart(tensor=torch.tensor(5), shape=(), first=0)
    paths = written(tmp_path, {"a": part.tensor}, count)
    assert SavedTensors(paths, sharded=True).read("a") == 5
    for path in paths[1:]:
        Shard({"a": part}).write(path)
    with pytest.raises(FolderError, match="do not have each row of 'a' once"):
        SavedTensors(paths, sharded=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_damaged_shard_crashes(tmp_path, seed):
    """A manifest of the same hand would hide the damage."""
    chance = random.Random(seed)
    paths = written(tmp_path, TENSORS, 2)
    whole = {path: path.read_bytes() for path in paths}
    refused = untold = 0
    for _ in range(400):
        path = chance.choice(paths)
        end = 8 + int.from_bytes(whole[path][:8], "little")  # of the header
        header = damaged(whole[path][:end], chance)
        if chance.random() < 0.5:  # with its length, so that its text is read
            header = (len(header) - 8).to_bytes(8, "little") + header[8:]
        path.write_bytes(header + whole[path][end:])
        try:
            found = SavedTensors(paths, sharded=True).read_all()
            assert sum(tensor.numel() for tensor in found.values()) < 100
        except FolderError as error:
            refused += 1
            untold += not error.hint
        path.write_bytes(whole[path])
    assert refused > 200
    assert untold == 0
    SavedTensors(paths, sharded=True)
