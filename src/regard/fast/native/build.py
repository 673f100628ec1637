"""C files -> a library for this very processor, compiled once and kept in the user's cache.

It takes two to four seconds, once, so nobody is asked: where a C compiler is found there are kernels,
elsewhere none.
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
from pathlib import Path

from regard.errors import RegardError, RunError, UserError
from regard.fast.native.compiler import compile_library, find_compiler, library_key, own_compiler
from regard.fast.native.failed_build import forget_failures, keep_failure, recall_failure
from regard.fast.native.kept_library import keep_library, load_library, refuse_noexec
from regard.fast.native.private_folder import private_folder
from regard.user_cache import user_cache

if sys.platform != "win32":
    import fcntl

BUILD = "build-"  # begins the names of the folders that compilers work in
log = logging.getLogger(__name__)


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None where there are none: `why_none` says why.

    If that is neither asked for nor for want of a compiler, a warning is logged: work is slower than it
    could be.
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
    assert isinstance(found, ctypes.CDLL)
    return found


def why_none() -> RegardError | None:
    """What keeps this machine from having kernels, and what would mend it; None if it has them."""
    found = _found()
    return found if isinstance(found, RegardError) else None


@functools.cache
def _found() -> ctypes.CDLL | RegardError:
    try:
        return find_library()
    except RegardError as error:
        return error


def find_library() -> ctypes.CDLL:
    """The kernels, compiled if they have not been.

    Raises:
        RegardError: there are none, and why.
    """
    if os.environ.get("REGARD_NATIVE") == "0":
        raise UserError("REGARD_NATIVE is 0")
    return built(own_compiler(), _cache())


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
    """The library that is kept in `folder`, made first if it is not there or damaged.

    Raises:
        RegardError: it cannot be made, kept or loaded; or other users could change it.
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
            keep_library(between / "made.so", folder, key)
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
    """A folder below, for this process alone, while it compiles; those of killed ones are swept first."""
    with (
        _sharing(folder),
        tempfile.TemporaryDirectory(prefix=BUILD, dir=folder, ignore_cleanup_errors=True) as between,
    ):
        yield Path(between)


@contextlib.contextmanager
def _sharing(folder: Path) -> Iterator[None]:
    """Hold the folder's lock with others who compile. Whoever has it alone sweeps: nobody is at work then.

    The system drops the lock of a process that is killed. Where there are no locks nothing is swept.
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
