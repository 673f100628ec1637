"""Runs tests in forks of a process that has loaded PyTorch: importing takes longer than most tests.

    python -m tests.long.forked_tests

Reads lines of JSON from its input, {"tests": [...], "source": "DIR", "seconds": 300}, and answers each with
the exit code of pytest, or null where the tests took longer. `source` is where `regard` is imported from,
so nothing of it may be loaded here.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

PACKAGES = ("beartype", "numpy", "tokenizers", "torch")  # that tests and program import, besides the program
INTERVAL = 0.05  # seconds between two looks at a child


class ForkedTests:
    """Such a process; a context manager that ends it."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.long.forked_tests"],
            cwd=root,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *tests: str, source: Path, seconds: float) -> int | None:
        """The exit code of pytest, which stops at the first failure; None: not done after so long."""
        assert self._process.stdin
        assert self._process.stdout
        asked = {"tests": tests, "source": str(source), "seconds": seconds}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()


def main() -> None:
    for package in PACKAGES:
        importlib.import_module(package)
    for line in sys.stdin:
        print(json.dumps(forked(**json.loads(line))), flush=True)


def forked(tests: list[str], source: str, seconds: float) -> int | None:
    child = os.fork()
    if child == 0:
        os.setsid()  # so that what it starts can be ended with it
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        os.environ["PYTHONPATH"] = source
        sys.path.insert(0, source)
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    return ended(child, seconds)


def ended(child: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done or time.monotonic() > end:
            break
        time.sleep(INTERVAL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not done:
        os.waitpid(child, 0)
        return None
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
