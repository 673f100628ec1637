"""Closed standard streams: an error names the stream, but only when a command uses it."""

import io
import os
import sys

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
