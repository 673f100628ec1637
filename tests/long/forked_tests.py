"""Runs tests in forks of a process that has loaded PyTorch: importing takes longer than most tests.

    python -m tests.long.forked_tests [SOURCE TEST ...]

Reads lines of JSON from its input, the arguments of `forked`, and answers each with the exit code of pytest,
which is negative where a test took far longer than usual, and the test that began last. `regard` is imported
from `source` by each fork, which may then have another text each time; or, with SOURCE, once with these tests
and their files, and a fork gets another body for one function.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.long.changed_code import ChangedFunction

PACKAGES = ("beartype", "numpy", "tokenizers", "torch")  # that tests and program import, besides the program
PATIENCE = 5  # times as long as usual
PROCESSOR = 30.0  # seconds of processor time besides; a busy machine does not shorten them
CLOCK = 120.0  # seconds by the clock besides, for a test that only waits
NOT_RUN = 100  # exit code: the function was not found, or pytest ended with an exception
LONGEST = 1000  # bytes of a test's name
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider"]


class ForkedTests:
    """Such a process; a context manager that ends it."""

    def __init__(self, root: Path, source: Path | None = None, tests: Sequence[str] = ()) -> None:
        loaded = [] if source is None else [str(source), *tests]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.long.forked_tests", *loaded],
            cwd=root,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, tests: Mapping[str, float], source: Path, change: ChangedFunction | None = None
    ) -> tuple[int, str]:
        """The exit code of pytest, which stops where a test fails or does not end; that test.

        `tests`: the seconds that each takes without a change. `change`: for a process with a SOURCE.
        """
        asked = {"tests": [*tests], "source": str(source), "usual": dict(tests)}
        return self._answer(asked | {"change": asdict(change) if change else None})

    def run_file(self, file: str, source: Path, *options: str, output: Path) -> int:
        """The exit code of pytest with these options, without limits; `output` gets what it prints."""
        asked = {"tests": [file], "source": str(source), "options": options, "output": str(output)}
        return self._answer(asked)[0]

    def _answer(self, asked: Mapping[str, Any]) -> tuple[int, str]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code, last = json.loads(self._process.stdout.readline())
        return code, last

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()  # closes its pipes too


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what pytest prints is no answer
    for package in PACKAGES:
        importlib.import_module(package)
    if len(sys.argv) > 1:
        source, *tests = sys.argv[1:]
        import_from(source)
        pytest.main(["--collect-only", "-p", "no:cacheprovider", *tests])
    for line in sys.stdin:
        print(json.dumps(forked(**json.loads(line))), file=answers, flush=True)


def import_from(source: str) -> None:
    os.environ["PYTHONPATH"] = source
    sys.path.insert(0, source)


def forked(
    tests: Sequence[str],
    source: str,
    usual: Mapping[str, float] | None = None,
    options: Sequence[str] = (),
    output: str = os.devnull,
    change: Mapping[str, Any] | None = None,
) -> tuple[int, str]:
    """Runs these tests; the exit code, and the last one.

    `usual`: the seconds of each, by which it is limited; None: without a limit.
    """
    with tempfile.TemporaryFile() as last:
        child = os.fork()
        if child == 0:
            os.setsid()  # so that what it starts can be ended with it
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            written = os.open(output, os.O_WRONLY | os.O_CREAT, 0o644)
            for stream in (1, 2):
                os.dup2(written, stream)
            import_from(source)
            if change and not ChangedFunction(**change).exchange():
                os._exit(NOT_RUN)
            plugins: list[object] = [LastTest(last.fileno())]
            plugins += [] if usual is None else [TimeLimit(usual)]
            try:
                os._exit(int(pytest.main([*OPTIONS, *hooked(), *options, *tests], plugins=plugins)))
            finally:  # only where it raises, which is no failure of a test
                os._exit(NOT_RUN)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status), last.read().decode().rstrip()


def hooked() -> list[str]:
    """jaxtyping's plugin refuses packages that are loaded; they have been loaded by it."""
    return ["--jaxtyping-packages="] if "regard" in sys.modules else []


class LastTest:
    """Plugin of pytest: the name of the test that runs is in a file."""

    def __init__(self, file: int) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.pwrite(self._file, nodeid.encode()[:LONGEST].ljust(LONGEST), 0)


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
