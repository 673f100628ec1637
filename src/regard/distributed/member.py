"""Error handling in a group of processes: if one fails, the first reports why, once, and all end."""

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

CAUSE_KEY = "regard/cause"  # the key in the store for the reason of a failure
CAUSE_TIMEOUT = timedelta(seconds=2)  # a failing process has stored its reason within this time
RESTART_HINT = "what was saved is intact: give the same command again"


@contextmanager
def member(process: Rank) -> Iterator[Group]:
    """A context in which this process is a member of the group.

    The first process raises its own error or that of the process that failed. The other processes end
    silently with their exit code, so that an error that all of them have is reported once.
    """
    group = SINGLE
    try:
        with _default_signals():
            group = join(process)
        yield group
    except (Exception, KeyboardInterrupt, Interrupted) as error:
        if process.rank > 0:
            _end(group, error)
        if process.size > 1:
            if process.is_started_by_torchrun:
                _on_stop(signal.SIG_IGN)  # torchrun stops all processes when one ends; this one must report
            if reported := _stored_error(group, error):
                raise reported from error
        raise
    finally:
        leave()


def is_connection_loss(error: BaseException) -> bool:
    """True if the error is torch's that another process does not respond."""
    if not isinstance(error, RuntimeError) or isinstance(error, torch.OutOfMemoryError):
        return False
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


def _stored_error(group: Group, error: BaseException) -> RegardError | None:
    """The error that another process stored, if it is the reason why this one fails; else None."""
    if not is_connection_loss(error) and not isinstance(error, Interrupted):
        return None
    if group.store is None:
        return RunError(
            "not all processes of this run connected",
            "check that each is started and can reach the first over the network",
        )
    try:
        if isinstance(error, Interrupted) and not group.store.check([CAUSE_KEY]):
            return None
        group.store.wait([CAUSE_KEY], CAUSE_TIMEOUT)
        cause = json.loads(group.store.get(CAUSE_KEY))
    except RuntimeError:  # the process was killed and stored no reason
        return RunError("another process of this run has ended", RESTART_HINT)
    kind = UserError if cause["exit_code"] == UserError.exit_code else RunError
    reported = kind(f"process {cause['rank']}: {cause['message']}", cause["hint"])
    reported.add_note(cause["traceback"])
    return reported


def _end(group: Group, error: BaseException) -> NoReturn:
    """Ends this process, which is not the first, and stores the reason unless another process caused it."""
    _on_stop(signal.SIG_DFL)
    code = getattr(error, "exit_code", RegardError.exit_code)
    if isinstance(error, KeyboardInterrupt):
        code = 128 + signal.SIGINT
    elif is_connection_loss(error):
        time.sleep(
            CAUSE_TIMEOUT.total_seconds() / 2
        )  # the first reports before torchrun stops it because of this one
    elif group.store is not None and not isinstance(error, Interrupted):
        with suppress(RuntimeError):  # the first process and its store may have ended
            group.store.set(CAUSE_KEY, json.dumps(_cause(group, error, code)))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # not by an exception, which would be reported


@contextmanager
def _default_signals() -> Iterator[None]:
    """A context in which signals end the process at once: Python calls no handler while torch waits."""
    before = _on_stop(signal.SIG_DFL)
    try:
        yield
    finally:
        restore(before)


def _on_stop(handler: Any) -> dict[int, Any]:
    """Sets the handler of the stop signals; returns the previous handlers."""
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
