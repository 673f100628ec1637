"""The signals that ask a process to end: SIGTERM, and SIGHUP when its terminal is closed."""

import os
import signal
import stat
from typing import Any

STOPS = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)
HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


def handlers() -> dict[int, Any]:
    """What answers each of them. Those that are ignored are left out, and stay so: `nohup` means it."""
    found = {number: signal.getsignal(number) for number in STOPS}
    return {number: handler for number, handler in found.items() if handler is not signal.SIG_IGN}


def on_stop(handler: Any) -> dict[int, Any]:
    """Let `handler` answer them; what did before."""
    before = handlers()
    for number in before:
        signal.signal(number, handler)
    return before


def restore(before: dict[int, Any]) -> None:
    """Undo `on_stop`, which gave `before`."""
    for number, handler in before.items():
        signal.signal(number, handler)


def leave_closed_terminal() -> None:
    """Let stdout and stderr go nowhere if their terminal is closed: each word to it would be an error."""
    for descriptor in (1, 2):
        try:
            is_closed = stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor)
        except OSError:  # this process has none
            continue
        if is_closed:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
