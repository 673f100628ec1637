"""A process whose standard input or output is closed: told by name where it is needed, and only there."""

import io
import os
import sys

from regard.errors import UserError


def occupy() -> None:
    """Give the three standard descriptors something to be, so that no file that is opened becomes one.

    Python has None for a stream that was closed when it started.
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
        sys.stdout = ClosedStream("output", "let it go to a file or to /dev/null: > FILE")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (as long as the process)


class ClosedStream(io.TextIOBase):
    """A stream that is not there: whoever reads or writes it is told."""

    def __init__(self, name: str, hint: str) -> None:
        self._error = UserError(f"the standard {name} is closed", hint)

    @property
    def buffer(self) -> "ClosedStream":
        return self

    def isatty(self) -> bool:
        if sys.stdin is self:  # asked only by who is about to read
            raise self._error
        return False

    def write(self, text: object, /) -> int:
        raise self._error

    def flush(self) -> None:
        """Nothing was written."""
