"""Starts and joins the processes of a run, or joins those that torchrun started."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from regard.distributed.group import SINGLE, Group
from regard.distributed.member import RESTART_HINT, is_connection_loss, member
from regard.distributed.rank import ALONE, PARENT_VARIABLE, WORKER_VARIABLE, Rank
from regard.errors import RecipeError, RegardError, RunError, Stopped
from regard.parent_process import end_with


@contextmanager
def workers(process: Rank, size: int, command: Sequence[str]) -> Iterator[Group]:
    """A context with the group of this process, or with a new group of `size` processes on this machine.

    New processes run `command` in this interpreter. At the end of the context they are waited for, or killed
    if this process failed.

    Raises:
        RecipeError: `size` is above 1 in a process that is already a member of a group.
    """
    if process != ALONE:
        if size > 1:
            raise RecipeError(
                f"--workers {size}, but this is one of {process.size} processes already",
                "leave out --workers: torchrun's --nproc-per-node sets the number of processes",
            )
        if PARENT_VARIABLE in os.environ:
            end_with(int(os.environ[PARENT_VARIABLE]))
        with member(process) as group:
            yield group
    elif size == 1:
        yield SINGLE
    else:
        with _with_new_workers(size, command) as group:
            yield group


@contextmanager
def _with_new_workers(size: int, command: Sequence[str]) -> Iterator[Group]:
    with tempfile.TemporaryDirectory(prefix="regard-workers-") as folder:
        rendezvous_url = (Path(folder) / "meeting").as_uri()
        others: list[subprocess.Popen[bytes]] = []
        failed = True
        try:
            for rank in range(1, size):
                others.append(_start(rank, size, rendezvous_url, command))
            with member(Rank(rank=0, size=size, local_rank=0, rendezvous_url=rendezvous_url)) as group:
                yield group
            failed = False
        except Stopped:  # the others have stopped at the same step
            failed = False
            raise
        except RegardError as error:
            if is_connection_loss(error.__cause__ or error) and error.hint == RESTART_HINT:
                raise _killed_worker_error(others, error) from error
            raise
        finally:
            for other in others:
                if failed:
                    other.kill()
                other.wait()


def _killed_worker_error(others: Sequence[subprocess.Popen[bytes]], error: RegardError) -> RegardError:
    """An error that names the worker that was killed, if there is one; else `error`."""
    for rank, other in enumerate(others, start=1):
        code = other.poll()
        if code and code < 0:
            return RunError(f"worker {rank} ended with signal {-code}", RESTART_HINT)
    return error


def _start(rank: int, size: int, rendezvous_url: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, WORKER_VARIABLE: f"{rank} {size} {rendezvous_url}"}
    if os.name == "posix":  # on Windows the parent may be a launcher of the interpreter
        environment[PARENT_VARIABLE] = str(os.getpid())
    # the command is this program's own, with this interpreter
    return subprocess.Popen([sys.executable, *command], env=environment)  # noqa: S603
