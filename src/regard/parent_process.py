"""Ends this process when its parent has ended, even by SIGKILL."""

import multiprocessing
import os
import select
import threading
import time

POLL_SECONDS = 0.5  # the polling interval on systems that do not report the end of a process


def end_with(parent: int) -> None:
    """Ends this process silently as soon as its parent has ended.

    A thread waits for it. The parent-death signal of Linux would come too early: when the thread that started
    this process ends.
    """
    if os.getppid() != parent:  # it has ended; whatever comes next could keep a thread from running
        os._exit(1)
    threading.Thread(target=_end_after, args=(parent,), name="parent process", daemon=True).start()


def _end_after(parent: int) -> None:
    wait_for(parent)
    os._exit(1)


def wait_for(parent: int) -> None:
    """Waits until the parent has ended."""
    if (descriptor := _descriptor(parent)) is not None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while os.getppid() == parent:  # otherwise the id belongs to another process by now
            poll.poll()
    elif started_by := multiprocessing.parent_process():
        started_by.join()
    else:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)


def _descriptor(process: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None if the system has none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(process)
    except OSError:  # an older kernel, or the process has ended, which the fallbacks detect at once
        return None
