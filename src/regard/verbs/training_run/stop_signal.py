"""Stopping a training run by a signal, after the current update."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from regard.stop_signals import HANGUP, handlers, redirect_closed_terminal, restore


@contextmanager
def stop_signal(say: Callable[[str], None]) -> Iterator[Callable[[], int | None]]:
    """A function that returns the signal to stop for, or None.

    The first SIGINT, SIGTERM or SIGHUP stops training after the current update; a second one has its usual
    effect, except SIGHUP, which the system and the shell both send when one terminal is closed.
    """
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    usual_handlers: dict[int, Any] = {signal.SIGINT: signal.getsignal(signal.SIGINT), **handlers()}

    def catch(number: int, frame: object) -> None:
        caught.append(number)
        if number != HANGUP:
            signal.signal(number, usual_handlers[number])
        redirect_closed_terminal()
        if len(caught) == 1:
            with suppress(RuntimeError):  # the signal has come while a line was being written
                say("stopping after this update; a second signal stops at once")

    for number in usual_handlers:
        signal.signal(number, catch)
    try:
        yield lambda: caught[0] if caught else None
    finally:
        restore(usual_handlers)
