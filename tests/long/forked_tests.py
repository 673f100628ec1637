"""Runs tests in forks of a process that has loaded PyTorch: importing takes longer than most tests.

    python -m tests.long.forked_tests

Reads lines of JSON from its input, the arguments of `forked`, and answers each with the exit code of pytest,
which is negative where a test took far longer than usual. `regard` is imported from `source`, so nothing of
it may be loaded here.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
        return self._answer({"tests": [*tests], "source": str(source), "usual": dict(tests)})

    def run_file(self, file: str, source: Path, *options: str, output: Path) -> int:
        """The exit code of pytest with these options, without limits; `output` gets what it prints."""
        asked = {"tests": [file], "source": str(source), "options": options, "output": str(output)}
        return self._answer(asked)

    def _answer(self, asked: Mapping[str, Any]) -> int:
        assert self._process.stdin
        assert self._process.stdout
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


def forked(
    tests: Sequence[str],
    source: str,
    usual: Mapping[str, float] | None = None,
    options: Sequence[str] = (),
    output: str = os.devnull,
) -> int:
    """Runs these tests; `usual`: the seconds of each, by which it is limited; None: without a limit."""
    child = os.fork()
    if child == 0:
        os.setsid()  # so that what it starts can be ended with it
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        written = os.open(output, os.O_WRONLY | os.O_CREAT, 0o644)
        for stream in (1, 2):
            os.dup2(written, stream)
        os.environ["PYTHONPATH"] = source
        sys.path.insert(0, source)
        plugins = [] if usual is None else [TimeLimit(usual)]
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *options, *tests], plugins=plugins)))
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
