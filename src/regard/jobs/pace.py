"""How fast a command answers its parts, and when it will have ended."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ShardReport:
    """What a command has done: its parts, those that were done before, lines, and lines that failed."""

    parts: int
    done_before: int
    lines: int
    failed: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PartDone:
    """A part that this command has just done, and how far the command is."""

    part: int
    lines: int
    failed: int  # lines of them
    seconds: float
    parts: int  # of the command
    parts_done: int
    lines_per_second: float  # of the command, since it began
    seconds_left: float  # by bytes of input, or by tasks


class Pace:
    """Counts what a command has done of its parts.

    Args:
        sizes: of all of them, by number: how much work each is.
        present: the numbers of those that were done before.
    """

    def __init__(self, sizes: Mapping[int, int], present: Collection[int]) -> None:
        self._sizes = sizes
        self.parts, self.before = len(self._sizes), sum(number in present for number in sizes)
        self._left = sum(size for number, size in self._sizes.items() if number not in present)
        self._began, self._size = time.monotonic(), 0
        self.done = self.lines = self.failed = 0

    def add(self, part: int, *, lines: int, failed: int, seconds: float) -> PartDone:
        """One more part is done."""
        size = self._sizes[part]
        self._left, self._size = self._left - size, self._size + size
        self.done, self.lines, self.failed = self.done + 1, self.lines + lines, self.failed + failed
        elapsed = max(time.monotonic() - self._began, 1e-6)
        return PartDone(
            part=part,
            lines=lines,
            failed=failed,
            seconds=seconds,
            parts=self.parts,
            parts_done=self.before + self.done,
            lines_per_second=self.lines / elapsed,
            seconds_left=elapsed * self._left / max(self._size, 1),
        )

    def report(self) -> ShardReport:
        """What has been done."""
        return ShardReport(
            parts=self.parts,
            done_before=self.before,
            lines=self.lines,
            failed=self.failed,
            seconds=time.monotonic() - self._began,
        )
