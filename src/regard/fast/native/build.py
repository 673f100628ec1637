"""The library of kernels: one that came with the wheel, or the C files compiled for this processor.

Compiling takes two to four seconds, once, so it happens without asking; the library is stored in the user's
cache. Without a prebuilt library and a C compiler there are no kernels.
"""

import contextlib
import ctypes
import functools
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import RegardError, RunError, UserError
from regard.fast.native.cached_library import cache_library, load_library, refuse_noexec
from regard.fast.native.compiler import compile_library, find_compiler, library_key, require_compiler
from regard.fast.native.failed_build import forget_failures, keep_failure, recall_failure
from regard.fast.native.prebuilt import load_prebuilt
from regard.fast.native.private_folder import private_folder
from regard.user_cache import user_cache

if sys.platform != "win32":
    import fcntl

BUILD = "build-"  # prefix of the folders in which compilers work
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Library:
    """The compiled kernels, and where they come from."""

    functions: ctypes.CDLL
    origin: str


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None if there are none; `why_none` says why.

    If compiling fails, a warning is logged that regard is slower than it could be; not if there is no
    compiler, or if the user switched the kernels off.
    """
    if error := why_none():
        expected = os.environ.get("REGARD_NATIVE") == "0" or not (find_compiler() or os.environ.get("CC"))
        log.log(
            logging.INFO if expected else logging.WARNING,
            "no kernels in C, so work on the CPU is slower: %s; %s",
            error.message,
            error.hint,
        )
        return None
    found = _found()
    assert isinstance(found, Library)
    return found.functions


def library_origin() -> str:
    """Where the kernels come from, for people to read. There must be some."""
    found = _found()
    assert isinstance(found, Library)
    return found.origin


def why_none() -> RegardError | None:
    """Why this machine has no kernels, with a hint what to do; None if it has them."""
    found = _found()
    return found if isinstance(found, RegardError) else None


@functools.cache
def _found() -> Library | RegardError:
    try:
        return find_library()
    except RegardError as error:
        return error


def find_library() -> Library:
    """The kernels: the prebuilt ones of this package, else compiled, if necessary.

    Raises:
        RegardError: there are none; the message says why.
    """
    asked = os.environ.get("REGARD_NATIVE") or None
    if asked == "0":
        raise UserError("REGARD_NATIVE is 0")
    if asked not in (None, "compile"):
        raise UserError(
            f"REGARD_NATIVE is {asked!r}, which has no meaning", "0: no kernels; compile: no prebuilt ones"
        )
    if asked is None and (prebuilt := load_prebuilt()):
        functions, target = prebuilt
        return Library(functions=functions, origin=f"prebuilt for {target.name}")
    compiler = require_compiler()
    return Library(functions=built(compiler, _cache()), origin=f"compiled by {' '.join(compiler)}")


def try_again() -> None:
    """Forget that there are no kernels, so that they are compiled where that has become possible."""
    if why_none() is None:
        return
    with contextlib.suppress(UserError):
        forget_failures(_cache())
    _found.cache_clear()
    library.cache_clear()


def _cache() -> Path:
    try:
        return user_cache("native")
    except RuntimeError as error:  # neither HOME nor an entry among the users
        raise UserError(
            "this user has no home folder", "set XDG_CACHE_HOME to a folder of your own"
        ) from error


def built(compiler: Sequence[str], folder: Path) -> ctypes.CDLL:
    """The library in `folder`, compiled first if it is missing or damaged.

    Raises:
        RegardError: it cannot be compiled, stored or loaded; or other users could change it.
    """
    try:
        folder = private_folder(folder)
        key = library_key(compiler)
        if found := load_library(folder, key):
            return found
        refuse_noexec(folder)
        if failure := recall_failure(folder, key, compiler):
            raise failure
        with _build_folder(folder) as between:
            try:
                compile_library(compiler, between / "made.so")
            except RunError as error:
                keep_failure(folder, key, compiler, error)
                raise
            cache_library(between / "made.so", folder, key)
        if found := load_library(folder, key):
            return found
    except OSError as error:
        raise UserError(
            f"{error.filename or folder}: {error.strerror or error}",
            "set XDG_CACHE_HOME to a folder that you can write to",
        ) from error
    raise RunError(f"{folder} does not hold what was written to it", "set XDG_CACHE_HOME to another disk")


@contextlib.contextmanager
def _build_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder for this process while it compiles; those of killed processes are removed first."""
    with (
        _sharing(folder),
        tempfile.TemporaryDirectory(prefix=BUILD, dir=folder, ignore_cleanup_errors=True) as between,
    ):
        yield Path(between)


@contextlib.contextmanager
def _sharing(folder: Path) -> Iterator[None]:
    """Hold a shared lock of the folder. Leftovers are removed if no other process holds it.

    The system releases the lock of a killed process. On systems without locks nothing is removed.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in folder.glob(f"{BUILD}*"):
                shutil.rmtree(left, ignore_errors=True)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
