import errno
import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.errors import FolderError, RunError
from regard.weights import folder as folders
from regard.weights.folder import (
    find_folder,
    recover,
    remove_folder,
    replace_file,
    verify_folder,
    write_files,
    write_folder,
)
from regard.weights.shards import Shard, TensorPart
from regard.weights.verified_folder import VerifiedFolder

FILES = {
    "model.safetensors": {"w": torch.arange(100.0)},
    "config.json": b'{"a": 1}',
    "README.md": b"# card",
}


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def test_a_folder_holds_its_files_and_a_manifest_of_all_but_the_card(tmp_path):
    write_folder(tmp_path / "m", FILES, manifest_extra={"step": 7})
    assert names(tmp_path) == ["m"]
    assert names(tmp_path / "m") == ["MANIFEST.json", *sorted(FILES)]
    manifest = verify_folder(tmp_path / "m")
    assert manifest["step"] == 7
    assert sorted(manifest["files"]) == ["config.json", "model.safetensors"]
    assert {"torch", "threads", "cpu_capability", "platform"} <= manifest["environment"].keys()
    assert torch.equal(
        VerifiedFolder.open(tmp_path / "m").read_tensors("model.safetensors")["w"],
        FILES["model.safetensors"]["w"],
    )


def test_the_card_may_be_edited_and_files_of_ones_own_may_lie_there(tmp_path):
    write_folder(tmp_path / "m", FILES)
    (tmp_path / "m" / "README.md").write_text("better words")
    (tmp_path / "m" / "notes.txt").write_text("mine")
    folder = VerifiedFolder.open(tmp_path / "m")
    for unlisted in ("README.md", "notes.txt", "optimizer.safetensors"):
        with pytest.raises(FolderError, match="has no"):  # what was not verified is not read
            folder.read_bytes(unlisted)


@pytest.mark.parametrize(("mask", "mode"), [(0o027, 0o640), (0o022, 0o644), (0, 0o666)])
def test_files_are_as_readable_as_the_umask_lets_them_be(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_folder(tmp_path / "m", FILES)
    finally:
        os.umask(before)
    for name in names(tmp_path / "m"):
        assert stat.S_IMODE((tmp_path / "m" / name).stat().st_mode) == mode, name


@pytest.mark.parametrize("name", ["a b", "模型 😀 ü", "n" * 255, "-rf", "100%{x}"])
def test_any_name_that_the_disk_takes_will_do(tmp_path, name):
    for _ in range(2):
        write_folder(tmp_path / name, FILES)
        verify_folder(tmp_path / name)
    assert names(tmp_path) == [name]


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    os.symlink(tmp_path / "disk" / "m", tmp_path / "link")
    for _ in range(2):
        write_folder(tmp_path / "link", FILES)
        assert (tmp_path / "link").is_symlink()
        verify_folder(tmp_path / "disk" / "m")
    os.symlink(tmp_path / "disk", tmp_path / "link_to_parent")
    write_folder(tmp_path / "link_to_parent" / "n", FILES)
    assert names(tmp_path / "disk") == ["m", "n"]


def test_a_replaced_folder_is_removed_unless_a_user_put_files_into_it(tmp_path):
    write_folder(tmp_path / "m", FILES)
    (tmp_path / "m" / ".DS_Store").write_text("")
    write_folder(tmp_path / "m", FILES | {"config.json": b"{}"})
    assert names(tmp_path) == ["m"]
    (tmp_path / "m" / "notes.txt").write_text("a week's work")
    write_folder(tmp_path / "m", FILES)
    (kept,) = set(names(tmp_path)) - {"m"}
    assert kept.startswith("m.replaced-")
    assert (tmp_path / kept / "notes.txt").read_text() == "a week's work"


def test_a_damaged_folder_can_be_replaced_too(tmp_path):
    for manifest in (b"", b'{"files": 7}', b"{" * 99999):
        write_folder(tmp_path / "m", FILES)
        (tmp_path / "m" / "MANIFEST.json").write_bytes(manifest)
        write_folder(tmp_path / "m", FILES)
        verify_folder(tmp_path / "m")


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("...")
    with pytest.raises(FolderError, match="exists and is not a model folder"):
        write_folder(tmp_path / "thesis", FILES)
    (tmp_path / "file").write_text("...")
    with pytest.raises(FolderError, match="is a file"):
        write_folder(tmp_path / "file", FILES)
    with pytest.raises(FolderError, match="exists and is no"):
        write_folder(tmp_path / "file" / ".." / ".." / tmp_path.name, FILES)
    assert names(tmp_path) == ["file", "thesis"]
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "empty", FILES)
    assert names(tmp_path) == ["empty", "file", "thesis"]


def test_what_is_not_finite_is_never_written_and_the_old_folder_stays(tmp_path):
    write_folder(tmp_path / "m", FILES)
    before = verify_folder(tmp_path / "m")
    with pytest.raises(RunError, match="'w' has NaN"):
        write_folder(tmp_path / "m", {"model.safetensors": {"w": torch.tensor([torch.nan])}})
    assert verify_folder(tmp_path / "m") == before
    assert names(tmp_path) == ["m"]


def test_tensors_that_are_not_finite_are_refused_before_any_file_is_written(tmp_path):
    weights = {"w": torch.tensor([torch.inf])}
    files = {"a": b"", "model.safetensors": weights}
    shard = Shard({"w": TensorPart(tensor=weights["w"], shape=(1,), first=0)})
    for content in (weights, shard):
        with pytest.raises(RunError, match="'w' has NaN"):
            write_files(tmp_path, {**files, "model.safetensors": content})
    with pytest.raises(RunError, match="'w' has NaN"):
        write_folder(tmp_path / "m", files, beside=lambda _: pytest.fail("other processes were waited for"))
    assert names(tmp_path) == []


def test_a_folder_has_its_files_alone_and_its_parents_are_made(tmp_path):
    """What a process of the same number left is not in it."""
    folder = tmp_path / "a" / "b" / "m"
    left = folders._hidden_sibling(folder, f"{os.getpid()}.partial")
    write_folder(folder, FILES)
    left.mkdir()
    (left / "old").write_text("")
    write_folder(folder, FILES)
    assert names(folder.parent) == ["m"]
    assert names(folder) == ["MANIFEST.json", *sorted(FILES)]


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "a\\b", "MANIFEST.json"])
def test_files_have_plain_names(tmp_path, name):
    with pytest.raises(AssertionError):
        write_folder(tmp_path / "m", {name: b""})
    assert names(tmp_path) == []


def test_every_damage_is_found_and_reported_in_one_line(tmp_path):
    write_folder(tmp_path / "m", FILES)
    weights = (tmp_path / "m" / "model.safetensors").read_bytes()
    draw = random.Random(0)
    for _ in range(300):
        mutant = bytearray(weights)
        if draw.random() < 0.3:
            mutant = mutant[: draw.randrange(len(weights))]
        else:
            mutant[draw.randrange(len(weights))] ^= 1 << draw.randrange(8)
        (tmp_path / "m" / "model.safetensors").write_bytes(bytes(mutant))
        with pytest.raises(FolderError, match=r"model\.safetensors") as raised:
            VerifiedFolder.open(tmp_path / "m")
        assert raised.value.hint
        assert "\n" not in raised.value.message
    (tmp_path / "m" / "model.safetensors").unlink()
    with pytest.raises(FolderError, match=r"model\.safetensors is missing"):
        VerifiedFolder.open(tmp_path / "m")


def test_a_damaged_manifest_is_reported_in_one_line_or_harms_nothing(tmp_path):
    write_folder(tmp_path / "m", FILES)
    good = (tmp_path / "m" / "MANIFEST.json").read_bytes()
    draw = random.Random(1)
    refused = []
    for _ in range(500):
        mutant = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(mutant))
            match draw.randrange(3):
                case 0:
                    mutant[place] = draw.randrange(256)
                case 1:
                    del mutant[place : place + draw.randint(1, 40)]
                case _:
                    mutant[place:place] = draw.choice(
                        [b"{", b"[", b'"', b"null", b"1e999", b"-", b",", b"\0"]
                    )
            mutant = mutant or bytearray(b"0")
        (tmp_path / "m" / "MANIFEST.json").write_bytes(bytes(mutant))
        try:
            folder = VerifiedFolder.open(tmp_path / "m")
        except FolderError as error:
            refused.append(error.message)
        else:
            assert set(folder.names) <= set(FILES)
    assert len(refused) > 300
    assert not [message for message in refused if "\n" in message]


@pytest.mark.parametrize(
    ("manifest", "output"),
    [
        ({}, "format None"),
        ({"format_version": 2, "files": {}}, "format 2, this version of regard reads format 1"),
        ({"format_version": 1}, "'files' is missing"),
        ({"format_version": 1, "files": []}, "'files' is missing"),
        (
            {"format_version": 1, "files": {"../m/config.json": {"bytes": 8, "sha256": ""}}},
            "is not the name of a file",
        ),
        (
            {"format_version": 1, "files": {"/etc/passwd": {"bytes": 8, "sha256": ""}}},
            "is not the name of a file",
        ),
        ({"format_version": 1, "files": {"": {"bytes": 8, "sha256": ""}}}, "is not the name of a file"),
        ({"format_version": 1, "files": {"\ud800": {"bytes": 8, "sha256": ""}}}, "is not the name of a file"),
        ({"format_version": 1, "files": {"n" * 300: {"bytes": 8, "sha256": ""}}}, "is missing"),
        (
            {"format_version": 1, "files": {"config.json": {"bytes": "8"}}},
            "entry of 'config.json' is not bytes and sha256",
        ),
        (
            {"format_version": 1, "files": {"config.json": [8, ""]}},
            "entry of 'config.json' is not bytes and sha256",
        ),
        ({"format_version": 1, "files": {"config.json": {"bytes": 8, "sha256": "x"}}}, "SHA-256 differs"),
        (
            {"format_version": 1, "files": {"config.json": {"bytes": 9, "sha256": "x"}}},
            "8 bytes instead of 9",
        ),
    ],
)
def test_a_hostile_manifest_leads_nowhere(tmp_path, manifest, output):
    write_folder(tmp_path / "m", FILES)
    (tmp_path / "m" / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match=output):
        verify_folder(tmp_path / "m")


def test_a_file_of_gigabytes_is_refused_before_it_is_read(tmp_path, monkeypatch):
    write_folder(tmp_path / "m", FILES)
    os.truncate(tmp_path / "m" / "config.json", 3 << 30)  # sparse: it takes no room
    manifest = json.loads((tmp_path / "m" / "MANIFEST.json").read_text())
    manifest["files"]["config.json"]["bytes"] = 3 << 30
    (tmp_path / "m" / "MANIFEST.json").write_text(json.dumps(manifest))
    monkeypatch.setattr(folders, "_sha256", lambda path: pytest.fail("it was read"))
    with pytest.raises(FolderError, match=r"config\.json is too large"):
        verify_folder(tmp_path / "m", {"config.json"})


def test_a_file_that_is_a_link_to_another_place_is_refused_even_if_it_has_the_same_content(tmp_path):
    write_folder(tmp_path / "m", FILES)
    (tmp_path / "m" / "config.json").rename(tmp_path / "elsewhere")
    (tmp_path / "m" / "config.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match=r"config\.json"):
        verify_folder(tmp_path / "m")


def test_a_path_that_is_no_folder_of_ours_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "dir").mkdir()
    for name, output in [
        ("absent", "does not exist"),
        ("file", "is a file"),
        ("dir", "has no MANIFEST.json"),
    ]:
        with pytest.raises(FolderError, match=output):
            verify_folder(tmp_path / name)


def test_settling_puts_back_what_stepped_aside_and_sweeps_the_rest(tmp_path):
    write_folder(tmp_path / "best", FILES)
    (tmp_path / "best").rename(tmp_path / ".best.aside")
    (tmp_path / ".best.1.partial").mkdir()
    (tmp_path / ".best.1.partial" / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".LATEST.77.partial").write_bytes(b"half")
    (tmp_path / "my.partial").write_text("mine")
    assert find_folder(tmp_path / "best") == tmp_path / ".best.aside"
    recover(tmp_path)
    assert names(tmp_path) == ["best", "my.partial"]
    verify_folder(tmp_path / "best")
    assert find_folder(tmp_path / "nothing") is None


def test_what_a_dead_writer_left_is_removed_by_the_next_writer_and_a_living_ones_stays(tmp_path, monkeypatch):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".m.{dead.pid}.partial").mkdir()
    (tmp_path / f".other.{dead.pid}.partial").mkdir()
    kill, sent = os.kill, []
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        (tmp_path / f".m.{living.pid}.partial").mkdir()
        with monkeypatch.context() as patched:
            patched.setattr(os, "kill", lambda pid, number: sent.append(number) or kill(pid, 0))
            write_folder(tmp_path / "m", FILES)
        living.communicate(b"\n")
    assert set(sent) == {0}, "it is asked whether it lives, and not ended"
    left = [f".m.{living.pid}.partial", f".other.{dead.pid}.partial"]
    assert names(tmp_path) == sorted([*left, "m"])


def test_what_a_dead_writer_left_and_cannot_be_removed_stops_no_writer(tmp_path, monkeypatch):
    left = tmp_path / f".model.{2**22 + 1}.partial"
    left.mkdir()
    (left / "a").touch()

    def refuse(*_, **__):
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", refuse)
        patched.setattr(os, "unlink", refuse)
        write_folder(tmp_path / "model", {"a": b"x"})
    assert (tmp_path / "model" / "a").read_bytes() == b"x"
    assert left.exists()


@pytest.mark.parametrize(
    ("number", "kind", "output"),
    [(30, FolderError, "Read-only"), (13, FolderError, "Permission"), (28, RunError, "No space left")],
)
def test_a_disk_that_will_not_is_reported_in_one_line(tmp_path, monkeypatch, number, kind, output):
    def mkdir(path, mode=0o777):
        raise OSError(number, os.strerror(number), str(path))

    (tmp_path / "m").mkdir()
    monkeypatch.setattr(folders.os, "mkdir", mkdir)
    with pytest.raises(kind, match=f"cannot save .*: {output}") as raised:
        write_folder(tmp_path / "m", FILES)
    assert raised.value.hint
    assert raised.value.exit_code == (2 if kind is FolderError else 1)


def test_a_small_file_is_replaced_whole(tmp_path):
    for text in (b"one", b"", b"two"):
        replace_file(tmp_path / "LATEST", text)
        assert (tmp_path / "LATEST").read_bytes() == text
    assert names(tmp_path) == ["LATEST"]


def test_a_power_cut_finds_every_file_on_disk_before_its_name_is(tmp_path, monkeypatch):
    flushed, renamed = [], []
    fsync, rename = os.fsync, os.rename

    def recorded_fsync(descriptor):
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def recorded_rename(source, target):
        renamed.append(len(flushed))
        rename(source, target)

    monkeypatch.setattr(folders.os, "fsync", recorded_fsync)
    monkeypatch.setattr(folders.os, "rename", recorded_rename)
    write_folder(tmp_path / "m", FILES)
    (moment,) = renamed
    manifest = (tmp_path / "m" / "MANIFEST.json").stat().st_ino
    files = {(tmp_path / "m" / name).stat().st_ino for name in FILES}
    assert set(flushed[: moment - 2]) == files
    assert flushed[moment - 2 : moment] == [manifest, (tmp_path / "m").stat().st_ino]
    assert flushed[moment:] == [tmp_path.stat().st_ino]


def test_a_power_cut_finds_a_small_file_on_disk_before_its_name_is(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def recorded_replace(source, target):
        replace(source, target)
        done.append("named")

    monkeypatch.setattr(
        folders.os, "fsync", lambda number: done.append(os.fstat(number).st_ino) or fsync(number)
    )
    monkeypatch.setattr(folders.os, "replace", recorded_replace)
    replace_file(tmp_path / "LATEST", b"step-00000001")
    assert done == [(tmp_path / "LATEST").stat().st_ino, "named", tmp_path.stat().st_ino]


def test_a_small_file_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    replace_file(tmp_path / "LATEST", b"old")

    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folders.os, "replace", full)
    with pytest.raises(RunError, match="No space left"):
        replace_file(tmp_path / "LATEST", b"new")
    assert names(tmp_path) == ["LATEST"]
    assert (tmp_path / "LATEST").read_bytes() == b"old"


@pytest.mark.parametrize("length", [200, 201, 255])
def test_names_of_two_long_names_do_not_meet(tmp_path, length):
    """What is written beside a folder has its name, or a hash of it where that would be too long."""
    first, second = ("n" * (length - 1) + end for end in "ab")
    write_folder(tmp_path / first, FILES)
    (tmp_path / first).rename(folders._hidden_sibling(tmp_path / first, "aside"))
    assert find_folder(tmp_path / second) is None
    assert find_folder(tmp_path / first) is not None
    hidden = folders._hidden_sibling(tmp_path / first, "aside").name
    assert (first in hidden) == (length <= 200)


def test_a_folder_that_cannot_take_its_place_leaves_the_old_one_there(tmp_path, monkeypatch):
    write_folder(tmp_path / "m", FILES)
    rename = os.rename

    def refuse(source, target):
        if str(source).endswith(".partial"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        for name in ("m", "new"):
            with pytest.raises(RunError, match="No space left"):
                write_folder(tmp_path / name, {**FILES, "config.json": b'{"a": 2}'})
    assert names(tmp_path) == ["m"]
    assert VerifiedFolder.open(tmp_path / "m").read_json("config.json") == {"a": 1}


@pytest.mark.parametrize("is_there", [True, False])
def test_what_a_killed_writer_renamed_is_removed_when_the_folder_is_written_again(tmp_path, is_there):
    for name in [".m.aside", "m"] if is_there else [".m.aside"]:
        write_folder(tmp_path / "written", FILES)
        (tmp_path / "written").rename(tmp_path / name)
    write_folder(tmp_path / "m", {**FILES, "config.json": b'{"a": 2}'})
    assert names(tmp_path) == ["m"]
    assert VerifiedFolder.open(tmp_path / "m").read_json("config.json") == {"a": 2}


def test_a_folder_that_cannot_be_removed_whole_is_gone_by_its_name_and_later_whole(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    write_folder(tmp_path / "m", FILES)
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        remove_folder(tmp_path / "m")
    (left,) = names(tmp_path)
    assert left.endswith(".partial")
    write_folder(tmp_path / "m", FILES)
    (tmp_path / left).mkdir(exist_ok=True)
    (tmp_path / left / "old").write_text("")
    remove_folder(tmp_path / "m")
    assert names(tmp_path) == []


def test_a_replaced_folder_that_cannot_be_removed_is_no_model_folder_any_more(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    for name in ("m", "new"):
        write_folder(tmp_path / name, FILES)
    with monkeypatch.context() as patched:
        patched.setattr(folders.shutil, "rmtree", refuse)
        folders._put_in_place(tmp_path / "new", tmp_path / "m")
    assert "MANIFEST.json" not in names(tmp_path / ".m.aside")
    verify_folder(tmp_path / "m")


def test_no_file_stays_open(tmp_path):
    def next_descriptor():
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = next_descriptor()
    write_folder(tmp_path / "m", FILES)
    replace_file(tmp_path / "LATEST", b"")
    verify_folder(tmp_path / "m")
    assert next_descriptor() == before


@pytest.mark.parametrize("path", [".", "", "/", ".."])
def test_a_folder_without_a_name_of_its_own_is_found(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_folder(Path(path)) == Path(path)


def test_a_folder_that_may_not_be_looked_into_does_not_seem_empty(tmp_path, monkeypatch):
    write_folder(tmp_path / "m", FILES)
    found = os.stat

    def stat(path, *arguments, **settings):
        if os.fspath(path).startswith(os.fspath(tmp_path / "m") + os.sep):
            raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
        return found(path, *arguments, **settings)

    monkeypatch.setattr(folders.os, "stat", stat)
    with pytest.raises(FolderError, match=r"/m: Permission denied") as raised:
        verify_folder(tmp_path / "m")
    assert raised.value.hint == f"you may not read it: ls -ld {tmp_path / 'm'} shows its owner and mode"
