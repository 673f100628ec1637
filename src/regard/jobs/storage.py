"""A folder on this machine or in an object store, by fsspec."""

import errno
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, Any, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from regard.errors import DataError, RegardError, RunError

Item = TypeVar("Item")
Result = TypeVar("Result")
CALLS_AT_ONCE = 32
TRIES = 5  # of a call that fails; the waits between them double
FIRST_WAIT = 0.2  # seconds
PIECE, BUFFER = 8 << 20, 1 << 20  # bytes of a file that are read or written at once; of one copying step
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)  # what os.link fails with there


class Storage:
    """The files of a folder. A file appears with all of its content, or not at all.

    On this machine it is written under another name, synced and renamed. An object store has this property
    itself. A call that fails is tried again, some seconds long.

    Args:
        url: a path, or an address such as s3://bucket/out.

    Raises:
        DataError: no permission, or no such bucket. RunError: the store failed again and again.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/") or "/"
        self.files, self.path = open_filesystem(self.url)
        self._local = isinstance(self.files, LocalFileSystem)

    @property
    def exists(self) -> bool:
        """False if this is a folder of this machine that does not exist."""
        return not self._local or os.path.isdir(self.path)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        with suppress(FileNotFoundError):
            return tried(f"{self.url}/{name}", lambda: bytes(self.files.cat_file(self._path(name))))
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, or replace it."""
        self._put(name, lambda: self._write(name, content))

    def write_file(self, name: str, file: Any, size: int) -> None:
        """Write a file, or replace it, with the content of an open binary file of that size."""

        def write() -> None:
            file.seek(0)
            if size <= PIECE:
                self._write(name, file.read())
            elif self._local:
                self._write(name, iter(lambda: file.read(BUFFER), b""))
            else:
                with self.files.open(self._path(name), "wb") as target:
                    shutil.copyfileobj(file, target, BUFFER)

        self._put(name, write)

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        """The content of a file in pieces; of one that is larger than `size` a little more than that.

        Raises:
            FileNotFoundError: there is none.
        """
        what, path = f"{self.url}/{name}", self._path(name)
        if size <= PIECE:
            yield tried(what, lambda: bytes(self.files.cat_file(path)))
            return
        for begin in range(0, size, PIECE):
            end = min(begin + PIECE, size + 1)
            yield tried(what, lambda begin=begin, end=end: bytes(self.files.cat_file(path, begin, end)))

    def create(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists; False if it did, also where two processes try at once."""
        try:
            self._put(name, lambda: self._create(name, content))
        except FileExistsError:
            return False
        return True

    def names(self, folder: str) -> set[str]:
        """The names of the files of a subfolder, now."""

        def listed() -> list[str]:
            self.files.invalidate_cache(self._path(folder))
            return self.files.ls(self._path(folder), detail=False)

        try:
            return {each.rsplit("/", 1)[-1] for each in tried(f"{self.url}/{folder}", listed)}
        except FileNotFoundError:
            return set()

    def _put(self, name: str, call: Callable[[], None]) -> None:
        try:
            tried(f"{self.url}/{name}", call)
        except FileNotFoundError as error:
            raise DataError(f"{self.url}: {error}", "make the bucket or folder first") from None

    def _write(self, name: str, content: bytes | Iterator[bytes]) -> None:
        if self._local:
            with self._written_elsewhere(name, content) as other:
                os.replace(other, self._path(name))
        else:
            self.files.pipe_file(self._path(name), content)

    def _create(self, name: str, content: bytes) -> None:
        if self._local:
            with self._written_elsewhere(name, content) as other:
                self._link(other, name)
        else:
            self.files.pipe_file(self._path(name), content, mode="create")

    def _link(self, other: str, name: str) -> None:
        try:
            os.link(other, self._path(name))
        except OSError as error:
            if error.errno in NO_LINKS:
                raise DataError(
                    f"{self.url}: this file system has no hard links, by which processes agree on a plan",
                    "choose another folder, or the address of a store, such as s3://bucket/out",
                ) from error
            raise

    @contextmanager
    def _written_elsewhere(self, name: str, content: bytes | Iterator[bytes]) -> Iterator[str]:
        path = self._path(name)
        other = f"{os.path.dirname(path)}/.{os.path.basename(path)}.{secrets.token_hex(8)}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(other, "xb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
                file.flush()
                os.fsync(file.fileno())
            yield other
        finally:
            with suppress(FileNotFoundError):
                os.unlink(other)

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"


@contextmanager
def new_file(url: str) -> Iterator[IO[bytes]]:
    """A file to write, which appears whole at the end, or not at all.

    Raises:
        DataError: it exists, or the place does not. RunError: it cannot be written.
    """
    files, path = open_filesystem(url)
    local = isinstance(files, LocalFileSystem)
    partial = f"{path}.partial-{secrets.token_hex(4)}"
    with naming(url):
        if files.exists(path):
            raise DataError(f"{url} exists", "choose another file, or remove it")
        if local:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with files.open(partial, "wb") as file:
                yield file
                if local:
                    file.flush()
                    os.fsync(file.fileno())
            if local:
                os.replace(partial, path)
            else:
                files.mv(partial, path)
        except FileNotFoundError as error:
            raise DataError(f"{url}: {error}", "make the bucket or folder first") from None
        finally:
            with suppress(Exception):  # where it was renamed, or the disk fails
                files.rm(partial)


def open_filesystem(url: str) -> tuple[Any, str]:
    """The file system of an address, and the path there.

    Raises:
        DataError: there is no such kind of address, or its package is not installed.
    """
    try:
        files, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        kind = url.partition("://")[0]
        raise DataError(f"{url}: {kind}:// needs another package", str(error)) from error
    except ValueError as error:
        raise DataError(f"{url}: {error}", "give a path, or an address such as s3://bucket/file") from error
    return files, str(path).rstrip("/")


def tried(what: str, call: Callable[[], Result]) -> Result:
    """The result of a call to a file system, which is tried again if it fails.

    Raises:
        FileNotFoundError, FileExistsError: as the call does. DataError: no permission. RunError: it failed
            TRIES times.
    """
    for number in range(TRIES):
        try:
            with naming(what):
                return call()
        except RunError:
            if number == TRIES - 1:
                raise
            time.sleep(FIRST_WAIT * 2**number)
    raise AssertionError


def at_once(call: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results of many calls to a store, in order; some are on their way at a time."""
    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        return list(pool.map(call, items))


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Raises any error of a file system, each of which has its own kinds, as one that names the file."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, RegardError):
        raise
    except NotADirectoryError as error:
        raise DataError(
            f"{what}: a part of this path is a file, no folder", "choose another folder"
        ) from error
    except PermissionError as error:
        raise DataError(f"{what}: permission denied", "check its owner, or the credentials") from error
    except Exception as error:
        raise RunError(f"{what}: {_reason(error)}", "run the same command again") from error


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    return text[:300] or type(error).__name__
