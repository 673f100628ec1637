"""Finds a C compiler on this machine and compiles the C files into a shared library."""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from regard.errors import RunError, UserError

SOURCES = sorted(Path(__file__).parent.glob("*.c"))
HEADERS = sorted(Path(__file__).parent.glob("*.h"))
COMPILERS = ("cc", "gcc", "clang")  # after $CC
FLAGS = (
    "-O3",
    "-std=gnu11",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-fvisibility=protected",
)
PROCESSOR_FLAGS = {
    "aarch64": ("-mcpu=native",),  # clang refuses -march=native there
    "arm64": ("-mcpu=native",),
    # gcc's tuning for Zen 3 made products of 32 rows and more 1.1 to 1.5 times slower than this (docs/log.md)
    "x86_64": ("-march=native", "-mtune=generic"),
    "AMD64": ("-march=native", "-mtune=generic"),
}
THIS_PROCESSOR = PROCESSOR_FLAGS.get(platform.machine(), ("-march=native",))
OPENMP_FLAGS = ("-fopenmp",)  # at run time the kernels use the OpenMP library that PyTorch has loaded
COMPILE_TIMEOUT = 60  # seconds
OTHER_COMPILER_HINT = "set CC to another C compiler"


def find_compiler() -> tuple[str, ...] | None:
    """The path of a C compiler and its options in $CC (such as `gcc -m64`); None if there is none."""
    asked = os.environ.get("CC", "").strip()
    if not asked:
        found = next(filter(None, map(shutil.which, COMPILERS)), None)
        return None if found is None else (found,)
    if found := shutil.which(asked):  # a path that may have spaces in it
        return (found,)
    try:
        name, *options = shlex.split(asked)
    except ValueError:  # an unmatched quotation mark
        return None
    found = shutil.which(name)
    return None if found is None else (found, *options)


def require_compiler() -> tuple[str, ...]:
    """`find_compiler`; UserError if there is none."""
    if found := find_compiler():
        return found
    if asked := os.environ.get("CC", "").strip():
        raise UserError(
            f"CC is {asked!r}, and there is no such compiler", "set CC to a C compiler, or unset it"
        )
    raise UserError("there is no C compiler", "install gcc or clang: decoding on a CPU is then faster")


def library_key(compiler: Sequence[str]) -> str:
    """A digest of sources, compiler, flags and processor, so that different machines can share a cache."""
    return source_digest(" ".join((*compiler, *THIS_PROCESSOR)).encode(), _processor())


def source_digest(*others: bytes) -> str:
    """A digest of the C files, the flags that they are always compiled with, and `others`."""
    sources = (file.read_bytes() for file in (*SOURCES, *HEADERS))
    return hashlib.sha256(
        b"\0".join((*sources, " ".join((*FLAGS, *OPENMP_FLAGS)).encode(), *others))
    ).hexdigest()[:16]


def compile_library(compiler: Sequence[str], made: Path) -> None:
    """Compile the C files into the library `made` for this processor; other files are in its folder too.

    Raises:
        RunError: the compiler failed; the message says why.
    """
    flags = (*FLAGS, *THIS_PROCESSOR)
    try:
        _compile_and_link(compiler, (*flags, *OPENMP_FLAGS), OPENMP_FLAGS, made)
    except RunError:  # perhaps a compiler without OpenMP
        _compile_and_link(compiler, flags, (), made)


def compile_portable_library(compiler: Sequence[str], processor: Sequence[str], made: Path) -> None:
    """Compile the C files into the library `made` for all processors that these flags describe.

    It names no OpenMP library: where it is loaded, the functions of PyTorch's own are used.

    Raises:
        RunError: the compiler failed; the message says why.
    """
    _compile_and_link(compiler, (*FLAGS, *processor, *OPENMP_FLAGS), ("-s",), made)


def _compile_and_link(
    compiler: Sequence[str], flags: Sequence[str], link_flags: Sequence[str], made: Path
) -> None:
    """Compile the sources in parallel, then link the library."""
    objects = [str(made.with_name(f"{source.stem}.o")) for source in SOURCES]
    commands = [
        [*compiler, *flags, "-c", str(source), "-o", each]
        for source, each in zip(SOURCES, objects, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(lambda command: _run(command, made.parent), commands))
    _run([*compiler, "-shared", *link_flags, *objects, "-o", str(made), "-lm"], made.parent)
    if not made.is_file():
        raise RunError(f"{compiler[0]} reported no error, but wrote no library", OTHER_COMPILER_HINT)


def _run(command: Sequence[str], folder: Path) -> None:
    """Run the compiler with its temporary files in `folder`, where no other user can change them."""
    environment = os.environ | dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder))
    try:
        done = subprocess.run(  # noqa: S603 (the user's compiler)
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_TIMEOUT,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{command[0]} took longer than {COMPILE_TIMEOUT} s", OTHER_COMPILER_HINT) from error
    except OSError as error:
        raise RunError(f"{command[0]} cannot be run: {error.strerror}", OTHER_COMPILER_HINT) from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = next((line for line in lines if "error:" in line.lower()), "".join(lines[-1:]))
        why = why or f"exit status {done.returncode}"
        raise RunError(f"{command[0]} cannot compile the kernels: {why[:300]}", OTHER_COMPILER_HINT)


def _processor() -> bytes:
    """Name and features of the processor."""
    machine = f"{platform.machine()} {platform.processor()}".encode()
    try:
        lines = Path("/proc/cpuinfo").read_bytes().split(b"\n\n")[0].splitlines()
    except OSError:
        return machine
    return b"\n".join(
        [machine, *(line for line in lines if line.startswith((b"model name", b"flags", b"Features")))]
    )
