"""A process among others: where one of them fails, the first tells why, once, and all end."""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from regard.distributed.group import SINGLE, Group, join, leave
from regard.distributed.rank import Rank
from regard.errors import Interrupted, RegardError, RunError, UserError
from regard.stop_signals import on_stop, restore

CAUSE = "regard/cause"  # in the store: why one ended
SOON = timedelta(seconds=2)  # within which one that fails has said why
AGAIN = "what was saved is whole: give the same command again"


@contextmanager
def member(place: Rank) -> Iterator[Group]:
    """The group, within which this process is one of it.

    The first process raises what went wrong in it, or in the one that failed. The others end in silence,
    each with the exit code of its failure: where all find the same fault, it is told once.
    """
    group = SINGLE
    try:
        with _at_once():
            group = join(place)
        yield group
    except (Exception, KeyboardInterrupt) as error:
        if place.rank > 0:
            _end(group, error)
        if place.size > 1:
            if place.is_started_by_torchrun:
                _on_stop(signal.SIG_IGN)  # it stops all when one has ended; this one has to tell why
            if told := _told(group, error):
                raise told from error
        raise
    finally:
        leave()


def is_loss(error: BaseException) -> bool:
    """Whether torch says that another process does not answer."""
    if not isinstance(error, RuntimeError) or isinstance(error, torch.OutOfMemoryError):
        return False
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


def _told(group: Group, error: BaseException) -> RegardError | None:
    """What another process has said of its failure, where that is why this one fails."""
    if not is_loss(error) and not isinstance(error, Interrupted):
        return None
    if group.store is None:
        return RunError(
            "not all processes of this run came", "see that each is started, and reaches the first"
        )
    try:
        if isinstance(error, Interrupted) and not group.store.check([CAUSE]):
            return None
        group.store.wait([CAUSE], SOON)
        cause = json.loads(group.store.get(CAUSE))
    except RuntimeError:  # killed: it had no time to
        return RunError("another process of this run is gone", AGAIN)
    kind = UserError if cause["exit_code"] == UserError.exit_code else RunError
    told = kind(f"process {cause['rank']}: {cause['message']}", cause["hint"])
    told.add_note(cause["traceback"])
    return told


def _end(group: Group, error: BaseException) -> NoReturn:
    """End this process, which is not the first; say why in the store, if it is not because of another."""
    _on_stop(signal.SIG_DFL)
    code = getattr(error, "exit_code", RegardError.exit_code)
    if isinstance(error, KeyboardInterrupt):
        code = 128 + signal.SIGINT
    elif is_loss(error):
        time.sleep(SOON.total_seconds() / 2)  # the first tells before it is stopped because of this one
    elif group.store is not None and not isinstance(error, Interrupted):
        with suppress(RuntimeError):  # the first may be gone, and its store
            group.store.set(CAUSE, json.dumps(_cause(group, error, code)))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # not by an exception, which would be told


@contextmanager
def _at_once() -> Iterator[None]:
    """Within, a signal ends the process even while torch waits, where no handler of Python's is called."""
    before = _on_stop(signal.SIG_DFL)
    try:
        yield
    finally:
        restore(before)


def _on_stop(handler: Any) -> dict[int, Any]:
    """Set what the signals do that ask to end; what they did."""
    return on_stop(handler) if threading.current_thread() is threading.main_thread() else {}


def _cause(group: Group, error: BaseException, code: int) -> dict[str, object]:
    known = isinstance(error, RegardError)
    return {
        "rank": group.rank,
        "exit_code": code,
        "message": error.message if known else f"{type(error).__name__}: {error}",
        "hint": error.hint if known else "the same command with --debug shows the traceback",
        "traceback": "".join(traceback.format_exception(error)),
    }
