"""A process among others: where one of them fails, the first tells why, once, and all end."""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist

from regard.distributed.group import SINGLE, Group, join, leave
from regard.distributed.place import Place
from regard.errors import Interrupted, RegardError, RunError, UserError

CAUSE, HEARD = "regard/cause", "regard/heard"  # in the store: why one ended; that the first has read it
SOON = timedelta(seconds=2)  # within which one that fails has said why
GRACE = timedelta(seconds=10)  # for the first to hear of it
AGAIN = "what was saved is whole: give the same command again"


@contextmanager
def member(place: Place) -> Iterator[Group]:
    """The group, within which this process is one of it.

    The first process raises what went wrong in it, or in the one that failed. The others end in silence,
    each with the exit code of its failure: where all find the same fault, it is told once.
    """
    group = SINGLE
    try:
        group = join(place)
        yield group
    except (Exception, KeyboardInterrupt) as error:
        if place.rank > 0:
            _end(group, error)
        if is_loss(error):
            raise _told(group) from error
        raise
    finally:
        leave()


def is_loss(error: BaseException) -> bool:
    """Whether torch says that another process does not answer."""
    if not isinstance(error, RuntimeError) or isinstance(error, torch.OutOfMemoryError):
        return False
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


def _told(group: Group) -> RegardError:
    """What the process that failed has said of it."""
    if group.store is None:
        return RunError(
            "not all processes of this run came", "see that each is started, and reaches the first"
        )
    try:
        group.store.wait([CAUSE], SOON)
        cause = json.loads(group.store.get(CAUSE))
    except RuntimeError:  # killed: it had no time to
        return RunError("another process of this run is gone", AGAIN)
    with suppress(RuntimeError):
        group.store.set(HEARD, "")
    kind = UserError if cause["exit_code"] == UserError.exit_code else RunError
    error = kind(f"process {cause['rank']}: {cause['message']}", cause["hint"])
    error.add_note(cause["traceback"])
    return error


def _end(group: Group, error: BaseException) -> NoReturn:
    """End this process, which is not the first; say why in the store, if it is not because of another."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # torchrun stops all when one has ended
    code = getattr(error, "exit_code", RegardError.exit_code)
    if isinstance(error, KeyboardInterrupt):
        code = 128 + signal.SIGINT
    elif not isinstance(error, Interrupted):
        with suppress(RuntimeError):  # the first may be gone, and its store
            if group.store is not None and not is_loss(error):
                group.store.set(CAUSE, json.dumps(_cause(group, error, code)))
                leave()  # whoever waits for this process hears that it is gone
                group.store.wait([HEARD], GRACE)
        leave()
        time.sleep(SOON.total_seconds() / 2)  # the first tells, before it is stopped because of this one
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # not by an exception, which would be told


def _cause(group: Group, error: BaseException, code: int) -> dict[str, object]:
    known = isinstance(error, RegardError)
    return {
        "rank": group.rank,
        "exit_code": code,
        "message": error.message if known else f"{type(error).__name__}: {error}",
        "hint": error.hint if known else "the same command with --debug shows the traceback",
        "traceback": "".join(traceback.format_exception(error)),
    }
