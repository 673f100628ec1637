"""Memory and processor time of a process and its children, as Linux counts them; 0 elsewhere."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PAGE = 1024  # /proc/*/status counts in KiB


def peak_resident(session: int) -> int:
    """Bytes: the greatest resident memory of each process of a session, added up."""
    return sum(_status(pid, "VmHWM") for pid in members(session))


def processor_seconds(session: int) -> float:
    """Processor time of the living processes of a session and of their ended children."""
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in members(session)) / TICK


def busy_seconds() -> float:
    """Processor time of the whole machine that was not idle, stolen time included."""
    try:
        numbers = [int(number) for number in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    except OSError:
        return 0.0
    return (sum(numbers) - numbers[3] - numbers[4]) / TICK  # without idle time and waiting for disks


def members(session: int) -> list[int]:
    """The processes of a session: a contender's process and those that it started."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if (fields := _stat(pid)) and int(fields[3]) == session]


def anonymous() -> int:
    """Anonymous resident memory of this process in bytes: pages of mapped files are not counted."""
    return _status(os.getpid(), "RssAnon")


@contextmanager
def peak_memory(every: float = 0.02) -> Iterator[list[int]]:
    """A context; the list it gives has, afterwards, the peak of anonymous resident memory inside it."""
    peak, done = [anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(every):
            peak[0] = max(peak[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()
        peak[0] = max(peak[0], anonymous())


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _status(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * PAGE for line in lines if line.startswith(f"{name}:")), 0)
