"""SIGTERM and SIGHUP are answered alike; who is not to hear them does not."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from regard.stop_signals import STOPS, handlers, on_stop, redirect_closed_terminal, restore

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has neither SIGHUP nor such terminals")


@pytest.fixture(autouse=True)
def usual():
    before = {number: signal.signal(number, signal.SIG_DFL) for number in STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_both_are_answered_and_given_back():
    heard = []
    before = on_stop(lambda number, frame: heard.append(number))
    for number in (signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)
    assert heard == [signal.SIGTERM, signal.SIGHUP]
    restore(before)
    assert handlers() == {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}


def test_what_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    assert on_stop(lambda number, frame: None) == {signal.SIGTERM: signal.SIG_DFL}
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


WRITER = """
import sys
from regard.stop_signals import redirect_closed_terminal
sys.stdin.readline()
redirect_closed_terminal()
print("out", flush=True)
print("err", file=sys.stderr, flush=True)
"""


def test_words_to_a_closed_terminal_are_no_error():
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    os.close(master)
    process.communicate(b"\n", timeout=60)
    assert process.returncode == 0


def test_words_to_a_pipe_still_arrive():
    command = [sys.executable, "-c", WRITER]
    done = subprocess.run(command, input="\n", capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    redirect_closed_terminal()  # and pytest's own streams stay as they are
