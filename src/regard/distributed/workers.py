"""The processes of a run: those that torchrun started, or those that this one starts beside it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from regard.distributed.group import SINGLE, Group
from regard.distributed.member import AGAIN, is_loss, member
from regard.distributed.rank import ALONE, OURS, PARENT, Rank
from regard.errors import RecipeError, RegardError, RunError, Stopped
from regard.parent_process import end_with


@contextmanager
def workers(place: Rank, size: int, command: Sequence[str]) -> Iterator[Group]:
    """The group of this process: of those that it was started with, else of `size` processes of this machine.

    The others of the latter run `command` in this interpreter. On the way out they are waited for, and
    killed where this process failed.

    Raises:
        RecipeError: it was started with others, and is to start some.
    """
    if place != ALONE:
        if size > 1:
            raise RecipeError(
                f"--workers {size}, and this is one of {place.size} processes already",
                "leave out --workers: torchrun's --nproc-per-node says how many",
            )
        if PARENT in os.environ:
            end_with(int(os.environ[PARENT]))
        with member(place) as group:
            yield group
    elif size == 1:
        yield SINGLE
    else:
        with _started(size, command) as group:
            yield group


@contextmanager
def _started(size: int, command: Sequence[str]) -> Iterator[Group]:
    with tempfile.TemporaryDirectory(prefix="regard-workers-") as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        others = [_start(rank, size, meeting, command) for rank in range(1, size)]
        failed = True
        try:
            with member(Rank(rank=0, size=size, local_rank=0, meeting=meeting)) as group:
                yield group
            failed = False
        except Stopped:  # so have the others, at the same step
            failed = False
            raise
        except RegardError as error:
            if is_loss(error.__cause__ or error) and error.hint == AGAIN:
                raise _named(others, error) from error
            raise
        finally:
            for other in others:
                if failed:
                    other.kill()
                other.wait()


def _named(others: Sequence[subprocess.Popen[bytes]], error: RegardError) -> RegardError:
    """The error with the name of the worker that was killed."""
    for rank, other in enumerate(others, start=1):
        code = other.poll()
        if code and code < 0:
            return RunError(f"worker {rank} ended with signal {-code}", AGAIN)
    return error


def _start(rank: int, size: int, meeting: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, OURS: f"{rank} {size} {meeting}"}
    if os.name == "posix":  # elsewhere a launcher of the interpreter may stand between
        environment[PARENT] = str(os.getpid())
    # the command is this program's own, with this interpreter
    return subprocess.Popen([sys.executable, *command], env=environment)  # noqa: S603
