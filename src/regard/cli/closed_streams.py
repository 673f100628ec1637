"""Standard streams that are closed or on a full disk: an error names the stream when it is used."""

import io
import os
import sys
from typing import Any

from regard.errors import UserError


def open_closed_streams() -> None:
    """Open the closed ones of the three standard descriptors, so that no other file gets their numbers.

    Python sets a stream to None if it was closed when Python started.
    """
    missing = [number for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream is None]
    if not missing:
        return
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = ClosedStream("input", "give a TEXT, or --input FILE")
    if sys.stdout is None:
        sys.stdout = ClosedStream("output", "redirect it to a file or to /dev/null: > FILE")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)


def name_output() -> None:
    """Let an error of writing to stdout name it: the system says only that some disk is full."""
    plain = sys.stdout
    if isinstance(plain, io.TextIOWrapper) and not plain.isatty():
        plain.flush()
        named = _NamedOutput(plain.fileno(), "w", closefd=False)
        is_unbuffered = isinstance(plain.buffer, io.FileIO)  # by PYTHONUNBUFFERED
        sys.stdout = io.TextIOWrapper(
            named if is_unbuffered else io.BufferedWriter(named),
            encoding=plain.encoding,
            errors=plain.errors,
            line_buffering=plain.line_buffering,
            write_through=plain.write_through,
        )


class _NamedOutput(io.FileIO):
    """The standard output, which raises a UserError when it cannot be written, and drops what follows."""

    _failed = False

    def write(self, data: Any, /) -> int | None:
        size = memoryview(data).nbytes
        if self._failed or not size:  # Python writes the rest when it exits; click tries with nothing
            return size
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._failed = True
            raise UserError(
                f"the standard output: {error.strerror}", "redirect it to a disk with free space: > FILE"
            ) from error


class ClosedStream(io.TextIOBase):
    """A stand-in for a closed stream, which raises a UserError when it is read or written."""

    def __init__(self, name: str, hint: str) -> None:
        self._error = UserError(f"the standard {name} is closed", hint)

    @property
    def buffer(self) -> "ClosedStream":
        return self

    def isatty(self) -> bool:
        if sys.stdin is self:  # only called before reading
            raise self._error
        return False

    def write(self, text: object, /) -> int:
        raise self._error

    def flush(self) -> None:
        """Does nothing, since nothing was written."""
