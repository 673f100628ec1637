"""Runs tests in forks of a process that has loaded PyTorch: importing takes longer than most tests.

    python -m tests.long.forked_tests

Reads lines of JSON from its input, {"tests": {"tests/decoding/test_rows.py::test_it": 0.5}, "source": "DIR"},
and answers each with the exit code of pytest, which is negative where a test took far longer than usual (so
many seconds). `source` is where `regard` is imported from, so nothing of it may be loaded here.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

PACKAGES = ("beartype", "numpy", "tokenizers", "torch")  # that tests and program import, besides the program
PATIENCE = 5  # times as long as usual
PROCESSOR = 30.0  # seconds of processor time besides; a busy machine does not shorten them
CLOCK = 120.0  # seconds by the clock besides, for a test that only waits


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

    def run(self, tests: Mapping[str, float], source: Path) -> int:
        """The exit code of pytest, which stops at the first failure or at a test that does not end.

        `tests`: the seconds that each takes without a change.
        """
        assert self._process.stdin
        assert self._process.stdout
        asked = {"tests": dict(tests), "source": str(source)}
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


def forked(tests: dict[str, float], source: str) -> int:
    child = os.fork()
    if child == 0:
        os.setsid()  # so that what it starts can be ended with it
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        os.environ["PYTHONPATH"] = source
        sys.path.insert(0, source)
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        os._exit(int(pytest.main([*options, *tests], plugins=[TimeLimit(tests)])))
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


class TimeLimit:
    """Plugin of pytest: the system ends this process where one test, or the import of all, does not end."""

    def __init__(self, usual: Mapping[str, float]) -> None:
        self._usual = usual
        for each in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(each, signal.SIG_DFL)  # ends the process, also in a loop outside Python
        self._begin(0.0)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._begin(self._usual.get(nodeid, 1.0))

    def _begin(self, usual: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR + PATIENCE * usual)
        signal.setitimer(signal.ITIMER_REAL, CLOCK + PATIENCE * usual)


if __name__ == "__main__":
    main()
