"""What the system says of a file that cannot be written, as an error with the path and a hint."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from regard.errors import FolderError, RunError

Item = TypeVar("Item")


def reading(items: Iterable[Item], name: str) -> Iterator[Item]:
    """The items, in an `os_errors`: the system's error of reading them names them, not what is written.

    Raises:
        RunError: `items`, whose name is `name`, cannot be read.
    """
    iterator = iter(items)
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except OSError as error:
            why = error.strerror or error
            raise RunError(
                f"cannot read {error.filename or name}: {why}", "check the file, and the disk that it is on"
            ) from error
        yield item


@contextlib.contextmanager
def os_errors(doing: str, path: Path) -> Iterator[None]:
    """A context that turns an OSError into a FolderError or RunError with a hint."""
    try:
        yield
    except OSError as error:
        message = f"cannot {doing} {path}: {error.strerror or error}"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise FolderError(message, "choose a folder that you may write to") from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST) and (file := _file_on_the_way(path)):
            what = "it" if file == path else file
            raise FolderError(f"cannot {doing} {path}: {what} is a file", "choose another folder") from error
        if error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOENT):
            raise FolderError(message, "choose another folder") from error
        if error.errno == errno.EFBIG:
            limit = "raise the limit for the size of a file (`ulimit -f`), or choose another disk"
            raise RunError(message, f"{limit}: what was saved before is intact") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunError(
                message, "free some space and continue: what was saved before is intact"
            ) from error
        raise RunError(message, "what was saved before is intact") from error


def _file_on_the_way(path: Path) -> Path | None:
    """The part of a path that is a file where a folder should be."""
    return next((each for each in (path, *path.parents) if os.path.isfile(each)), None)
