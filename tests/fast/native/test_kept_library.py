"""A library is loaded only if it has the content that it was kept with, and is nobody else's."""

import ctypes
import os

import pytest

from regard.errors import RegardError, UserError
from regard.fast.native import kept_library
from regard.fast.native.compiler import compile_library, find_compiler
from regard.fast.native.kept_library import keep_library, load_library, refuse_noexec

pytestmark = pytest.mark.skipif(find_compiler() is None or os.name != "posix", reason="no C compiler")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small library whose only function gives 1."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "one.c").write_text("int one(void) { return 1; }\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.fast.native.compiler.SOURCES", [folder / "one.c"])
        compile_library(find_compiler(), folder / "made.so")
    return (folder / "made.so").read_bytes()


@pytest.fixture
def kept(made, tmp_path):
    """The path at which it is kept."""
    (tmp_path / "made.so").write_bytes(made)
    (tmp_path / "cache").mkdir()
    keep_library(tmp_path / "made.so", tmp_path / "cache", "key")
    (file,) = (tmp_path / "cache").iterdir()
    return file


def test_what_is_kept_is_loaded(kept):
    found = load_library(kept.parent, "key")
    assert found is not None
    assert found.one() == 1
    assert load_library(kept.parent, "another") is None
    assert kept.stat().st_mode & 0o777 == 0o700


def test_it_is_on_disk_before_it_has_its_name(made, tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        usual = getattr(os, name)
        monkeypatch.setattr(
            kept_library.os, name, lambda *given, name=name, usual=usual: (calls.append(name), usual(*given))
        )
    (tmp_path / "made.so").write_bytes(made)
    keep_library(tmp_path / "made.so", tmp_path, "key")
    assert calls == ["fsync", "replace", "fsync"]  # its content; its name


@pytest.mark.parametrize("cut", [0, 1, 64, 4096, -1])
def test_a_truncated_library_is_removed_not_loaded(kept, cut, made):
    kept.write_bytes(made[:cut])
    assert load_library(kept.parent, "key") is None
    assert not kept.exists()


@pytest.mark.parametrize("place", [0, 5, 100, 0.3, 0.5, 0.9, -1])
def test_a_flipped_bit_is_seen(kept, place, made):
    content = bytearray(made)
    content[int(place * len(made)) if isinstance(place, float) else place] ^= 1
    kept.write_bytes(content)
    assert load_library(kept.parent, "key") is None
    assert not kept.exists()


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_what_others_can_write_to_is_not_loaded(kept, mode):
    kept.chmod(mode)
    assert load_library(kept.parent, "key") is None


def test_what_belongs_to_another_user_is_not_loaded(kept, monkeypatch):
    if os.geteuid() == 0:
        os.chown(kept, 54321, -1)
    else:
        monkeypatch.setattr(kept_library, "is_trusted", lambda user: False)
    assert load_library(kept.parent, "key") is None


def test_a_link_is_not_followed(kept, tmp_path):
    kept.rename(tmp_path / "elsewhere.so")
    kept.symlink_to(tmp_path / "elsewhere.so")
    assert load_library(kept.parent, "key") is None


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no paths of descriptors")
def test_what_was_verified_is_loaded_whatever_has_its_name_by_then(kept, monkeypatch):
    usual = kept_library._load

    def swapped(descriptor, file):
        file.unlink()
        file.write_bytes(b"what another process put there")
        return usual(descriptor, file)

    monkeypatch.setattr(kept_library, "_load", swapped)
    found = load_library(kept.parent, "key")
    assert found is not None
    assert found.one() == 1


def test_two_libraries_of_one_process_are_two(kept, tmp_path):
    (tmp_path / "two.c").write_text("int one(void) { return 2; }\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.fast.native.compiler.SOURCES", [tmp_path / "two.c"])
        compile_library(find_compiler(), tmp_path / "two.so")
    keep_library(tmp_path / "two.so", kept.parent, "other")
    assert [load_library(kept.parent, key).one() for key in ("key", "other", "key")] == [1, 2, 1]


def test_an_undamaged_library_that_cannot_be_loaded_is_reported_and_kept(tmp_path):
    (tmp_path / "made.so").write_bytes(b"no library at all" * 100)
    keep_library(tmp_path / "made.so", tmp_path, "key")
    (file,) = tmp_path.iterdir()
    with pytest.raises(
        RegardError, match=f"{file.name} cannot be loaded: .*invalid ELF header|cannot be loaded"
    ):
        load_library(tmp_path, "key")
    assert file.exists()


def test_a_file_system_mounted_noexec_is_reported(kept, monkeypatch):
    if not hasattr(os, "ST_NOEXEC"):
        pytest.skip("no such flag")
    refuse_noexec(kept.parent)
    reported = type("FileSystem", (), {"f_flag": os.ST_NOEXEC | os.ST_NOSUID})
    monkeypatch.setattr(kept_library.os, "statvfs", lambda path: reported)
    with pytest.raises(UserError, match="mounted noexec"):
        refuse_noexec(kept.parent)

    def forbidden(path):
        raise OSError("failed to map segment from shared object")

    monkeypatch.setattr(ctypes, "CDLL", forbidden)
    with pytest.raises(UserError, match="mounted noexec"):
        load_library(kept.parent, "key")
