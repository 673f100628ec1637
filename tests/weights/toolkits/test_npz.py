"""Arrays of an .npz file; what is damaged, holds objects, is too much or lies elsewhere is refused."""

import numpy as np
import pytest

from regard.errors import DataError, FolderError
from regard.weights.toolkits import npz
from regard.weights.toolkits.npz import read_npz


def written(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_arrays_come_back_as_they_were_written(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "special:model.yml": np.ones(3, np.int8)}
    found = read_npz(written(tmp_path / "m.npz", **arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06", b"PK\x03\x04" + b"\0" * 40])
def test_a_file_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "m.npz").write_bytes(content)
    with pytest.raises(FolderError, match=r"m\.npz is not a file of plain arrays: \S") as caught:
        read_npz(tmp_path / "m.npz")
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_so_is_one_that_ends_too_early_or_has_objects(tmp_path):
    path = written(tmp_path / "m.npz", a=np.ones(200))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FolderError, match="is not a file of plain arrays"):
        read_npz(path)
    with pytest.raises(FolderError, match="is not a file of plain arrays"):
        read_npz(written(path, a=np.array([{}, None], dtype=object)))


def test_as_many_arrays_as_the_limit_are_read_and_one_more_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path / "m.npz", a=np.ones(1), b=np.ones(1))
    monkeypatch.setattr(npz, "MAX_ARRAYS", 2)
    assert sorted(read_npz(path)) == ["a", "b"]
    monkeypatch.setattr(npz, "MAX_ARRAYS", 1)
    with pytest.raises(FolderError, match="has 2 arrays") as caught:
        read_npz(path)
    assert caught.value.hint == "it is not a model"


def test_the_size_of_the_arrays_and_not_of_the_file_decides_about_memory(tmp_path, monkeypatch):
    path, asked = tmp_path / "m.npz", []
    np.savez_compressed(path, a=np.zeros(10_000, np.int8), b=np.zeros(500, np.int8))

    def refuse(size, where):
        asked.append((size, where))
        raise DataError("it does not fit")

    monkeypatch.setattr(npz, "refuse_beyond_memory", refuse)
    with pytest.raises(DataError, match="it does not fit"):
        read_npz(path)
    [(size, where)] = asked
    assert 10_500 < size < 11_000
    assert (where, path.stat().st_size < 1000) == (path, True)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "model").mkdir()
    written(tmp_path / "m.npz", a=np.ones(1))
    (tmp_path / "model" / "m.npz").symlink_to(tmp_path / "m.npz")
    with pytest.raises(FolderError, match="is a link out of its folder"):
        read_npz(tmp_path / "model" / "m.npz")
