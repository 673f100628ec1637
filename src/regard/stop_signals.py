"""Handlers of the stop signals: SIGTERM, and SIGHUP when the terminal is closed."""

import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STOPS = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)
HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


def handlers() -> dict[int, Any]:
    """The handlers of the stop signals, without ignored ones, which stay ignored (`nohup`)."""
    found = {number: signal.getsignal(number) for number in STOPS}
    return {number: handler for number, handler in found.items() if handler is not signal.SIG_IGN}


def on_stop(handler: Any) -> dict[int, Any]:
    """Sets the handler of the stop signals; returns the previous handlers."""
    before = handlers()
    for number in before:
        signal.signal(number, handler)
    return before


def restore(before: dict[int, Any]) -> None:
    """Restores the handlers that `on_stop` returned."""
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def ignored_hangup() -> Iterator[None]:
    """Ignores SIGHUP until a handler is set, or until the end."""
    if HANGUP is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(HANGUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(HANGUP, before)


def redirect_closed_terminal() -> None:
    """Redirects stdout and stderr to the null device if their terminal is closed, where writing fails."""
    for descriptor in (1, 2):
        try:
            is_closed = stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor)
        except OSError:  # the descriptor is not open
            continue
        if is_closed:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
