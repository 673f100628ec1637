"""The lock of a run folder, which the system releases when its holder dies."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from regard.data.os_errors import os_errors
from regard.errors import FolderError

RETRY_SECONDS = 0.5  # between two attempts

if sys.platform == "win32":
    import msvcrt

    LOCKED_BYTE = 1 << 30  # the locked byte, far from the holder's process number, which stays readable

    def _acquire(descriptor: int) -> None:
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _acquire_within(descriptor: int, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            return _acquire(descriptor)
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= deadline:
                raise
        time.sleep(RETRY_SECONDS)


@contextlib.contextmanager
def locked(path: Path, wait: float = 0.0) -> Iterator[None]:
    """A context that holds the lock of the folder `path`, after at most `wait` seconds.

    Raises:
        FolderError: another process holds it, or the disk does not support locks.
    """
    with os_errors("use", path):
        descriptor = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            _acquire_within(descriptor, wait)
        except (BlockingIOError, PermissionError) as error:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            raise FolderError(
                f"{path} is in use by process {holder}",
                "wait for it, stop it, or choose another folder with --out",
            ) from error
        except OSError as error:
            raise FolderError(
                f"{path} cannot be locked: {error.strerror}", "choose a folder on a disk of this machine"
            ) from error
        with os_errors("use", path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))
        yield
    finally:
        os.close(descriptor)
