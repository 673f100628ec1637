"""One process at a time in a run folder: a lock that the system drops when its holder dies."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from regard.errors import FolderError
from regard.weights.folder import told

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 30  # a byte that nobody reads, so that the holder's number can still be read

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder `path`, or say which process holds it."""
    with told("use", path):
        descriptor = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            _take(descriptor)
        except (BlockingIOError, PermissionError) as error:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            raise FolderError(
                f"{path} is in use by process {holder}",
                "wait until it has ended, or stop it, or choose another folder with --out",
            ) from error
        except OSError as error:
            raise FolderError(
                f"{path} cannot be locked: {error.strerror}", "choose a folder on a disk of this machine"
            ) from error
        with told("use", path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))
        yield
    finally:
        os.close(descriptor)
