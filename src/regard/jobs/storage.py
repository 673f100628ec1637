"""A folder on this machine or in an object store, by fsspec."""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from regard.errors import DataError, RegardError, RunError

Result = TypeVar("Result")
TRIES = 5  # of a call that fails; the waits between them double
FIRST_WAIT = 0.2  # seconds


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

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        with suppress(FileNotFoundError):
            return tried(f"{self.url}/{name}", lambda: bytes(self.files.cat_file(self._path(name))))
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, or replace it."""
        self._put(name, lambda: self._write(name, content))

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

    def _write(self, name: str, content: bytes) -> None:
        if self._local:
            with self._written_elsewhere(name, content) as other:
                os.replace(other, self._path(name))
        else:
            self.files.pipe_file(self._path(name), content)

    def _create(self, name: str, content: bytes) -> None:
        if self._local:
            with self._written_elsewhere(name, content) as other:
                os.link(other, self._path(name))
        else:
            self.files.pipe_file(self._path(name), content, mode="create")

    @contextmanager
    def _written_elsewhere(self, name: str, content: bytes) -> Iterator[str]:
        path = self._path(name)
        other = f"{os.path.dirname(path)}/.{os.path.basename(path)}.{secrets.token_hex(8)}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(other, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield other
        finally:
            with suppress(FileNotFoundError):
                os.unlink(other)

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"


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
