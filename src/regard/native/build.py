"""C files -> a library for this very processor, compiled once and kept in the user's cache.

It takes two to four seconds, once, so nobody is asked: where a C compiler is found there are kernels,
elsewhere none.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from regard.user_cache import user_cache

SOURCES = sorted(Path(__file__).parent.glob("*.c"))
HEADERS = sorted(Path(__file__).parent.glob("*.h"))
COMPILERS = ("cc", "gcc", "clang")  # after $CC
FLAGS = (
    "-O3",
    "-march=native",
    "-std=gnu11",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-fvisibility=protected",
)
THREADS = ("-fopenmp",)  # whose library is the one that PyTorch has loaded
SECONDS = 60  # a compiler that takes longer is given up


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernels, or None where there are none: no compiler, or REGARD_NATIVE is 0."""
    if os.environ.get("REGARD_NATIVE") == "0":
        return None
    compiler = find_compiler()
    return None if compiler is None else built(compiler, user_cache("native"))


def find_compiler() -> str | None:
    """The path of a C compiler."""
    asked = os.environ.get("CC")
    return next(filter(None, map(shutil.which, (asked,) if asked else COMPILERS)), None)


def built(compiler: str, folder: Path) -> ctypes.CDLL | None:
    """The library of `folder`, made if it is not there or cannot be loaded; None if it cannot be made."""
    file = folder / f"kernels-{_key(compiler)}.so"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours_alone(folder):
            return None
        if not file.exists():
            _compile(compiler, file)
        try:
            return ctypes.CDLL(str(file))
        except OSError:  # damaged
            _compile(compiler, file)
            return ctypes.CDLL(str(file))
    except (OSError, subprocess.SubprocessError):
        return None


def _is_ours_alone(folder: Path) -> bool:
    """Whether nobody else can put a library there."""
    told = folder.stat()
    return not hasattr(os, "getuid") or (told.st_uid == os.getuid() and not told.st_mode & 0o022)


def _compile(compiler: str, file: Path) -> None:
    """Under another name first: two processes may do the same at once.

    Raises:
        SubprocessError: the compiler fails.
        OSError: the folder cannot be written to.
    """
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder, file.name)
        try:
            _link(compiler, [*FLAGS, *THREADS], made)
        except subprocess.CalledProcessError:  # a compiler without OpenMP
            _link(compiler, FLAGS, made)
        os.replace(made, file)


def _link(compiler: str, flags: Sequence[str], made: Path) -> None:
    """The sources side by side, then the library of them all."""
    objects = [str(made.with_name(f"{source.stem}.o")) for source in SOURCES]
    commands = [
        [compiler, *flags, "-c", str(source), "-o", each]
        for source, each in zip(SOURCES, objects, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(_run, commands))
    _run([compiler, *flags, "-shared", *objects, "-o", str(made), "-lm"])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, capture_output=True, timeout=SECONDS, check=True)  # noqa: S603 (the user's compiler)


def _key(compiler: str) -> str:
    """Of all that the library depends on: a cache may be shared by machines with other processors."""
    parts = [
        *(file.read_bytes() for file in (*SOURCES, *HEADERS)),
        " ".join((compiler, *FLAGS, *THREADS)).encode(),
        _processor(),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> bytes:
    """What the processor is and can do."""
    told = f"{platform.machine()} {platform.processor()}".encode()
    try:
        lines = Path("/proc/cpuinfo").read_bytes().split(b"\n\n")[0].splitlines()
    except OSError:
        return told
    return b"\n".join(
        [told, *(line for line in lines if line.startswith((b"model name", b"flags", b"Features")))]
    )
