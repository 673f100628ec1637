"""The command line: the options and help of each command, and the reporting of errors."""

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from regard.cli.closed_streams import name_output, open_closed_streams
from regard.cli.failures import Session, failure, report
from regard.cli.group import CLOSED_PIPE, regard
from regard.errors import Interrupted
from regard.stop_signals import HANGUP, on_stop, redirect_closed_terminal

__all__ = ["main", "run"]


def main() -> NoReturn:
    """Run `regard` with the arguments of this process, and leave with its exit code."""
    on_stop(_stop)
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that are not UTF-8
    name_output()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """The exit code of `regard` with these arguments.

    0 for success, 2 for an error of the user, 1 for another failure, and 128 + number for a signal: 130 for
    Ctrl-C, 143 for SIGTERM, 129 for SIGHUP, 141 (without a message) for a closed output pipe.
    """
    session = Session()
    try:
        return regard.main(list(arguments), prog_name="regard", standalone_mode=False, obj=session) or 0
    except (Exception, KeyboardInterrupt, Interrupted) as error:  # noqa: BLE001 (the last place to report it)
        reported = failure(error)
        if reported.exit_code == CLOSED_PIPE:
            # so that Python does not complain at exit either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            if session.debug:
                traceback.print_exception(error)
            report(reported, debug=session.debug)
        return reported.exit_code


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    redirect_closed_terminal()
    if number == HANGUP:  # the system and the shell both send it when a terminal is closed
        signal.signal(number, signal.SIG_IGN)
    raise Interrupted(number, f"stopped by {signal.Signals(number).name}", "the same command starts it again")
