"""End this process when the one that started it has ended, even by SIGKILL."""

import multiprocessing
import os
import select
import threading
import time

SECONDS = 0.5  # between two looks, where the system does not tell of the end of a process


def end_with(parent: int) -> None:
    """From now on end this process, without a word, as soon as its parent has ended.

    A thread waits for that. The parent-death signal of Linux would be sent too early: when the thread that
    started this process ends.
    """
    threading.Thread(target=_end_after, args=(parent,), name="parent process", daemon=True).start()


def _end_after(parent: int) -> None:
    wait_for(parent)
    os._exit(1)


def wait_for(parent: int) -> None:
    """Return when the parent has ended."""
    if (descriptor := _descriptor(parent)) is not None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while os.getppid() == parent:  # else its number is that of another one by now
            poll.poll()
    elif started_by := multiprocessing.parent_process():
        started_by.join()
    else:
        while os.getppid() == parent:
            time.sleep(SECONDS)


def _descriptor(process: int) -> int | None:
    """A descriptor that can be read when the process has ended; None where there is no such thing."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(process)
    except OSError:  # an older kernel; or it has ended, which the other ways see at once
        return None
