"""Files of a model folder must be inside it, regular files, and of bounded size."""

import errno
import os

import pytest

from regard.data import folder_file
from regard.data.folder_file import checked_inside, read_file, refuse_large_file
from regard.errors import FolderError, RunError


def sparse(path, size):
    """A sparse file of this size, which takes no disk space."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize(
    "name", ["MANIFEST.json", "config.json", "tokenizer.json", "vocab.txt", "state.json"]
)
def test_a_file_of_gigabytes_is_refused_before_it_is_read(tmp_path, name):
    path = sparse(tmp_path / name, 3 * 2**30)
    for read in (read_file, refuse_large_file):
        with pytest.raises(FolderError, match=rf"{name} is too large: 3,221,225,472 bytes"):
            read(path)


def test_weights_may_be_as_large_as_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_file, "total_memory", lambda: 2**30)
    refuse_large_file(sparse(tmp_path / "model.safetensors", 2**30))
    with pytest.raises(FolderError, match="more than the 1,073,741,824 of this machine's memory"):
        refuse_large_file(sparse(tmp_path / "model.safetensors", 2**30 + 1))


def test_links_within_a_folder_are_followed(tmp_path):
    (tmp_path / "there").write_bytes(b"{}")
    (tmp_path / "config.json").symlink_to("there")
    (tmp_path.parent / "link").unlink(missing_ok=True)
    (tmp_path.parent / "link").symlink_to(tmp_path)
    assert read_file(tmp_path / "config.json") == b"{}"
    assert read_file(tmp_path.parent / "link" / "config.json") == b"{}"


@pytest.mark.parametrize("inner", ["", "1_Pooling"])
def test_the_blobs_of_a_hub_cache_are_followed(tmp_path, inner):
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "f00", tmp_path / "models--a--b" / "blobs"
    (snapshot / inner).mkdir(parents=True)
    blobs.mkdir()
    (blobs / "abc").write_bytes(b"{}")
    path = snapshot / inner / "config.json"
    path.symlink_to(os.path.relpath(blobs / "abc", path.parent))
    assert read_file(path, snapshot) == b"{}"
    path.unlink()
    (tmp_path / "other").write_bytes(b"secret")
    path.symlink_to(tmp_path / "other")
    with pytest.raises(FolderError, match="a link out of its folder"):
        read_file(path, snapshot)


def test_links_out_of_a_folder_are_refused(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "vocab.txt").symlink_to(tmp_path / "secret")
    (folder / "1_Pooling").symlink_to(tmp_path)
    for path in (folder / "vocab.txt", folder / "1_Pooling" / "secret"):
        with pytest.raises(FolderError, match=r"a link out of its folder, to .*/secret") as caught:
            read_file(path, folder)
        assert "cp -L" in caught.value.hint
        with pytest.raises(FolderError):
            checked_inside(path, folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_no_file_of_a_folder(tmp_path):
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(FolderError, match="not a regular file"):
        read_file(tmp_path / "tokenizer.json")


@pytest.mark.parametrize(("number", "kind"), [(errno.EIO, RunError), (errno.ENOENT, FolderError)])
def test_a_disk_that_fails_does_not_mean_a_damaged_folder(tmp_path, monkeypatch, number, kind):
    """A checkpoint with a FolderError is renamed, so only a fault of the file itself may raise one."""

    def fails(*given):
        raise OSError(number, os.strerror(number))

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(kind, match=r"config\.json"):
        read_file(tmp_path / "config.json")
