"""The command line: options and help of each verb, and how a failure is told."""

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from regard.cli.closed_streams import occupy
from regard.cli.failures import Session, failure, tell
from regard.cli.group import NOBODY_READS, regard
from regard.errors import Interrupted
from regard.stop_signals import HANGUP, on_stop, redirect_closed_terminal

__all__ = ["main", "run"]


def main() -> NoReturn:
    """Run `regard` with the arguments of this process, and leave with its exit code."""
    on_stop(_stop)
    occupy()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of another encoding shows the rest
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """The exit code of `regard` with these arguments.

    0 where it went well, 2 for what the user can mend, 1 for a failure while running, and 128 + its
    number for a signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP, 141 (in silence) where nobody reads
    any more.
    """
    session = Session()
    try:
        return regard.main(list(arguments), prog_name="regard", standalone_mode=False, obj=session) or 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the last place to tell it in)
        told = failure(error)
        if told.exit_code == NOBODY_READS:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor does Python complain at exit
        else:
            if session.debug:
                traceback.print_exception(error)
            tell(told)
        return told.exit_code


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    redirect_closed_terminal()
    if number == HANGUP:  # the system and the shell both tell of one closed terminal
        signal.signal(number, signal.SIG_IGN)
    raise Interrupted(number, f"stopped by {signal.Signals(number).name}", "the same command starts it again")
