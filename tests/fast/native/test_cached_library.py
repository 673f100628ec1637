"""A cached library is loaded only if its content matches its checksum and only this user can write to it."""

import ctypes
import os

import pytest

from regard.errors import RegardError, UserError
from regard.fast.native import cached_library
from regard.fast.native.cached_library import cache_library, load_library, refuse_noexec
from regard.fast.native.compiler import compile_library, find_compiler

pytestmark = pytest.mark.skipif(
    find_compiler() is None or os.name != "posix", reason="no C compiler, or not POSIX"
)


@pytest.fixture(scope="module")
def library_bytes(tmp_path_factory):
    """The bytes of a compiled library whose only function returns 1."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "one.c").write_text("int one(void) { return 1; }\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.fast.native.compiler.SOURCES", [folder / "one.c"])
        compile_library(find_compiler(), folder / "made.so")
    return (folder / "made.so").read_bytes()


@pytest.fixture
def cached(library_bytes, tmp_path):
    """The path of that library in the cache."""
    (tmp_path / "made.so").write_bytes(library_bytes)
    (tmp_path / "cache").mkdir()
    cache_library(tmp_path / "made.so", tmp_path / "cache", "key")
    (file,) = (tmp_path / "cache").iterdir()
    return file


def test_a_cached_library_is_loaded(cached):
    found = load_library(cached.parent, "key")
    assert found is not None
    assert found.one() == 1
    assert load_library(cached.parent, "another") is None
    assert cached.stat().st_mode & 0o777 == 0o700


def test_a_library_is_flushed_to_disk_before_it_is_renamed(library_bytes, tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        usual = getattr(os, name)
        monkeypatch.setattr(
            cached_library.os,
            name,
            lambda *given, name=name, usual=usual: (calls.append(name), usual(*given)),
        )
    (tmp_path / "made.so").write_bytes(library_bytes)
    cache_library(tmp_path / "made.so", tmp_path, "key")
    assert calls == ["fsync", "replace", "fsync"]  # the file's content, its new name, the folder's entry


@pytest.mark.parametrize("cut", [0, 1, 64, 4096, -1])
def test_a_truncated_library_is_removed_not_loaded(cached, cut, library_bytes):
    cached.write_bytes(library_bytes[:cut])
    assert load_library(cached.parent, "key") is None
    assert not cached.exists()


@pytest.mark.parametrize("offset", [0, 5, 100, 0.3, 0.5, 0.9, -1])
def test_a_library_with_a_flipped_bit_is_removed(cached, offset, library_bytes):
    content = bytearray(library_bytes)
    content[int(offset * len(library_bytes)) if isinstance(offset, float) else offset] ^= 1
    cached.write_bytes(content)
    assert load_library(cached.parent, "key") is None
    assert not cached.exists()


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_library_that_others_can_write_to_is_not_loaded(cached, mode):
    cached.chmod(mode)
    assert load_library(cached.parent, "key") is None


def test_a_library_of_another_user_is_not_loaded(cached, monkeypatch):
    if os.geteuid() == 0:
        os.chown(cached, 54321, -1)
    else:
        monkeypatch.setattr(cached_library, "is_trusted", lambda user: False)
    assert load_library(cached.parent, "key") is None


def test_a_link_is_not_followed(cached, tmp_path):
    cached.rename(tmp_path / "elsewhere.so")
    cached.symlink_to(tmp_path / "elsewhere.so")
    assert load_library(cached.parent, "key") is None


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no /proc/self/fd")
def test_the_verified_file_is_loaded_even_if_it_was_replaced_meanwhile(cached, monkeypatch):
    usual = cached_library._load

    def swapped(descriptor, file):
        file.unlink()
        file.write_bytes(b"what another process put there")
        return usual(descriptor, file)

    monkeypatch.setattr(cached_library, "_load", swapped)
    found = load_library(cached.parent, "key")
    assert found is not None
    assert found.one() == 1


def test_one_process_can_load_two_different_libraries(cached, tmp_path):
    (tmp_path / "two.c").write_text("int one(void) { return 2; }\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.fast.native.compiler.SOURCES", [tmp_path / "two.c"])
        compile_library(find_compiler(), tmp_path / "two.so")
    cache_library(tmp_path / "two.so", cached.parent, "other")
    assert [load_library(cached.parent, key).one() for key in ("key", "other", "key")] == [1, 2, 1]


def test_an_undamaged_library_that_cannot_be_loaded_is_reported_and_not_removed(tmp_path):
    (tmp_path / "made.so").write_bytes(b"no library at all" * 100)
    cache_library(tmp_path / "made.so", tmp_path, "key")
    (file,) = tmp_path.iterdir()
    with pytest.raises(RegardError, match=f"{file.name} cannot be loaded"):
        load_library(tmp_path, "key")
    assert file.exists()


def test_a_file_system_mounted_noexec_is_reported(cached, monkeypatch):
    if not hasattr(os, "ST_NOEXEC"):
        pytest.skip("no such flag")
    refuse_noexec(cached.parent)
    reported = type("FileSystem", (), {"f_flag": os.ST_NOEXEC | os.ST_NOSUID})
    monkeypatch.setattr(cached_library.os, "statvfs", lambda path: reported)
    with pytest.raises(UserError, match="mounted noexec"):
        refuse_noexec(cached.parent)

    def forbidden(path):
        raise OSError("failed to map segment from shared object")

    monkeypatch.setattr(ctypes, "CDLL", forbidden)
    with pytest.raises(UserError, match="mounted noexec"):
        load_library(cached.parent, "key")
