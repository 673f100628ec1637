"""A process that watches its parent ends with it, in each of the ways that a system may offer."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process ids work differently there")
PARENT = """
import subprocess, sys, time
command = [sys.executable, "-c", *sys.argv[1:]]
child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""
CHILD = """
import os, sys, threading, time
if "no descriptors" in sys.argv:
    del os.pidfd_open
from regard.parent_process import end_with
end_with(os.getppid())
print("ready", flush=True)
time.sleep(60)
"""
THREAD = """
import os, subprocess, sys, threading, time
started = []
def start():
    command = [sys.executable, "-c", sys.argv[1]]
    started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
thread = threading.Thread(target=start)
thread.start()
thread.join()
started[0].stdout.readline()
time.sleep(1)
print(started[0].poll())
started[0].kill()
"""


@pytest.mark.parametrize("way", ["descriptors", "no descriptors"])
def test_it_ends_when_its_parent_is_killed(way):
    if way == "descriptors" and not hasattr(os, "pidfd_open"):
        pytest.skip("no descriptors of processes")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD, way], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.kill()
    assert parent.communicate(timeout=60)[1] == ""  # it ended without a word; else stderr would be open yet
    assert ended(child)


def test_it_does_not_end_with_the_thread_that_started_it():
    done = subprocess.run(
        [sys.executable, "-c", THREAD, CHILD], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "None\n"


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def ended(process):
    deadline = time.monotonic() + 30
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_running(process):
        os.kill(process, signal.SIGKILL)
        return False
    return True
