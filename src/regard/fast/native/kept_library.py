"""A library in the cache: kept with the checksum of its content, and loaded only if it matches."""

import contextlib
import ctypes
import hashlib
import os
import stat
from pathlib import Path

from regard.errors import RunError, UserError
from regard.fast.native.private_folder import is_trusted


def keep_library(made: Path, folder: Path, key: str) -> None:
    """Move `made` to its place in the folder; it is on disk when this returns.

    Its name holds the SHA-256 of its content. So one rename brings both, and no moment has a library with the
    checksum of another.
    """
    made.chmod(0o700)
    with made.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    os.replace(made, folder / f"kernels-{key}-{digest}.so")
    if os.name == "posix":  # elsewhere folders cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def load_library(folder: Path, key: str) -> ctypes.CDLL | None:
    """The library that was kept under this key; None if there is none. Damaged ones are removed.

    Raises:
        RegardError: it is whole, and this machine does not load it.
    """
    for file in sorted(folder.glob(f"kernels-{key}-*.so")):
        descriptor = _open_whole(file, digest=file.stem.rpartition("-")[2])
        if descriptor is not None:
            return _load(descriptor, file)
        with contextlib.suppress(OSError):  # what cannot be removed is passed over at each start
            file.unlink()
    return None


def refuse_noexec(folder: Path) -> None:
    """Raise a UserError if no library in the folder can be loaded, because programs are forbidden there."""
    if hasattr(os, "ST_NOEXEC") and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise UserError(
            f"{folder} is on a file system that is mounted noexec, so that no library can be loaded from it",
            "set XDG_CACHE_HOME to a folder on another file system",
        )


def _open_whole(file: Path, digest: str) -> int | None:
    """A descriptor of the file; None if it is not this user's or has not this content."""
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
    """True of a plain file that nobody else owns or may write to."""
    if not stat.S_ISREG(found.st_mode):
        return False
    return os.name != "posix" or (
        is_trusted(found.st_uid) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _load(descriptor: int, file: Path) -> ctypes.CDLL:
    """Load what was verified, whatever lies under its name by now.

    The descriptor stays open as long as the process lives: the loader knows a library by its path, so the
    number must never come to stand for another one.
    """
    path = f"/proc/self/fd/{descriptor}"
    if not os.path.exists(path):  # not Linux: its name will do, in a folder that nobody else can change
        os.close(descriptor)
        path = str(file)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        refuse_noexec(file.parent)
        raise RunError(
            f"{file} cannot be loaded: {str(error).replace(path, file.name)}", "set CC to another C compiler"
        ) from error
