"""A library in the cache; it is loaded only if its content matches the checksum in its file name."""

import contextlib
import ctypes
import hashlib
import os
import stat
from pathlib import Path

from regard.errors import RunError, UserError
from regard.fast.native.private_folder import is_trusted


def cache_library(made: Path, folder: Path, key: str) -> None:
    """Move `made` into the folder; it is on disk when this returns.

    Its file name holds the SHA-256 of its content, so that one rename stores both: there is never a library
    with the checksum of another.
    """
    made.chmod(0o700)
    with made.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    os.replace(made, folder / f"kernels-{key}-{digest}.so")
    if os.name == "posix":  # on other systems folders cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def load_library(folder: Path, key: str) -> ctypes.CDLL | None:
    """The library stored under this key; None if there is none. Damaged ones are removed.

    Raises:
        RegardError: it is undamaged, but this machine cannot load it.
    """
    for file in sorted(folder.glob(f"kernels-{key}-*.so")):
        descriptor = _open_verified(file, digest=file.stem.rpartition("-")[2])
        if descriptor is not None:
            return _load(descriptor, file)
        with contextlib.suppress(OSError):  # a file that cannot be removed is skipped again at the next start
            file.unlink()
    return None


def refuse_noexec(folder: Path) -> None:
    """Raise a UserError if the folder's file system is mounted with noexec, which forbids libraries."""
    if hasattr(os, "ST_NOEXEC") and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise UserError(
            f"{folder} is on a file system that is mounted noexec, so that no library can be loaded from it",
            "set XDG_CACHE_HOME to a folder on another file system",
        )


def _open_verified(file: Path, digest: str) -> int | None:
    """A descriptor of the file; None if it is not this user's or its digest differs."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with open(descriptor, "rb", closefd=False) as opened:
        found = os.fstat(descriptor)
        if _is_ours_alone(found) and hashlib.file_digest(opened, "sha256").hexdigest() == digest:
            return descriptor
    os.close(descriptor)
    return None


def _is_ours_alone(found: os.stat_result) -> bool:
    """True for a regular file of this user that no other user may write to."""
    if not stat.S_ISREG(found.st_mode):
        return False
    return os.name != "posix" or (
        is_trusted(found.st_uid) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _load(descriptor: int, file: Path) -> ctypes.CDLL:
    """Load the verified file by its descriptor, even if its name now belongs to another file.

    The descriptor stays open as long as the process lives: the loader identifies a library by its path, which
    contains the descriptor's number, so the number must not be reused.
    """
    path = f"/proc/self/fd/{descriptor}"
    if not os.path.exists(path):  # not Linux: the name is safe, since no other user can change the folder
        os.close(descriptor)
        path = str(file)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        refuse_noexec(file.parent)
        raise RunError(
            f"{file} cannot be loaded: {str(error).replace(path, file.name)}", "set CC to another C compiler"
        ) from error
