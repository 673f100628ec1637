"""Starts the other workers of a training run on this machine, and sees that none outlives it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from regard.distributed.group import SINGLE, Group, join, leave
from regard.errors import Interrupted, RunError

PLACE = "REGARD_WORKER"  # rank, number of workers and meeting place of a worker that another one started


def own_place() -> tuple[int, int, Path] | None:
    """The place that the process which started this one gave it; None for one that a user started."""
    if PLACE not in os.environ:
        return None
    rank, size, path = os.environ[PLACE].split(" ", 2)
    return int(rank), int(size), Path(path)


@contextmanager
def workers(size: int, command: Sequence[str]) -> Iterator[Group]:
    """The group of `size` processes, this one included; the others run `command` in this interpreter.

    Within a worker that was started so, its own group. On the way out the others are waited for, and
    killed where this process failed.
    """
    if place := own_place():
        try:
            yield join(*place)
        except Interrupted as interrupted:  # the first worker tells of it
            raise SystemExit(interrupted.exit_code) from None
        finally:
            leave()
        return
    if size == 1:
        yield SINGLE
        return
    with tempfile.TemporaryDirectory(prefix="regard-workers-") as folder:
        meeting_place = Path(folder) / "meeting"
        others = [_start(rank, size, meeting_place, command) for rank in range(1, size)]
        failed = True
        try:
            yield join(0, size, meeting_place)
            failed = False
        except Interrupted:  # all stop at the same step
            failed = False
            raise
        except RuntimeError as error:  # what torch raises where another does not answer
            raise _told(others, error) from error
        finally:
            if failed:
                for other in others:
                    other.kill()
            leave()
            for other in others:
                other.wait()


def _told(others: Sequence[subprocess.Popen[bytes]], error: RuntimeError) -> Exception:
    """An error that names the worker that is gone; the one given where all are there."""
    for rank, other in enumerate(others, start=1):
        code = other.poll()
        if code:
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            return RunError(
                f"worker {rank} ended with {ended}", "what was saved is whole: give the same command again"
            )
    return error


def _start(rank: int, size: int, meeting_place: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, PLACE: f"{rank} {size} {meeting_place}"}
    # the command is this program's own, with this interpreter
    return subprocess.Popen([sys.executable, *command], env=environment)  # noqa: S603
