"""Files of an output folder: whole or absent, of any size; a place that lacks something is named."""

import errno
import io
import os

import pytest

from regard.errors import DataError, RunError
from regard.jobs import part_record
from regard.jobs import storage as storages
from regard.jobs.inputs import find_inputs
from regard.jobs.part_record import PartOutput, output_name
from regard.jobs.storage import Storage, new_file


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(storages, "FIRST_WAIT", 0.0)


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 35])
def test_pieces_joined_are_the_content(storage, monkeypatch, size):
    monkeypatch.setattr(storages, "PIECE", 10)
    content = bytes(range(size))
    storage.write_file("parts/x", io.BytesIO(content), size)
    assert storage.read("parts/x") == content
    assert b"".join(storage.pieces("parts/x", size)) == content
    assert storage.names("parts") == {"x"}


def outputs(storage, count):
    with PartOutput() as output:
        for number in range(count):
            output.add(f"line {number}\n".encode(), 1)
        return output.write(storage, 0, failed=[], seconds=1.0, engine={}, counts={})


@pytest.mark.parametrize("change", [b"", b"more", None])
def test_another_content_is_refused_after_any_number_of_pieces(storage, monkeypatch, change):
    monkeypatch.setattr(storages, "PIECE", 64)
    monkeypatch.setattr(part_record, "PIECE", 64)
    record = outputs(storage, 40)
    content = storage.read(output_name(0))
    assert b"".join(record.pieces(storage)) == content
    if change is None:
        storage.files.rm(f"{storage.path}/{output_name(0)}")
    else:
        storage.write(output_name(0), content + change if change else content[:-1] + b"?")
    with pytest.raises(
        DataError, match="is missing, although" if change is None else "not what was recorded"
    ):
        list(record.pieces(storage))


def test_a_new_file_is_whole_or_absent(storage, tmp_path):
    storage.write("any", b"")
    for place in (f"{storage.url}/new", str(tmp_path / "folder" / "new")):
        with pytest.raises(RunError, match="no more"):
            fail_in(place)
        assert new_files(place) == []
        with new_file(place) as file:
            file.write(b"whole")
        assert new_files(place) == [place.rpartition("/")[2]]
        with pytest.raises(DataError, match="new exists"), new_file(place) as file:
            pass


def fail_in(place):
    with new_file(place) as file:
        file.write(b"half")
        raise OSError("no more")


def new_files(place):
    files, path = storages.open_filesystem(place)
    folder = path.rpartition("/")[0]
    files.invalidate_cache()
    names = (each.rpartition("/")[2] for each in files.ls(folder, detail=False))
    return [name for name in names if name.startswith("new")]


def test_a_file_system_without_hard_links_is_named(tmp_path, monkeypatch):
    def none(*given):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", none)
    with pytest.raises(DataError, match="has no hard links"):
        Storage(str(tmp_path)).create("plan.json", b"{}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_written_after_a_look_is_found(storage):
    storage.write("in/a.txt", b"a\n")
    assert len(find_inputs([f"{storage.url}/in/*"])) == 1
    storage.write("in/b.txt", b"b\n")
    assert len(find_inputs([f"{storage.url}/in/*"])) == 2
