"""Runs tests in forks of a process that has loaded PyTorch: importing takes longer than most tests.

    python -m tests.long.forked_tests [SOURCE TEST ...]

Reads lines of JSON from its input, the arguments of `forked`, and answers each with the exit code of pytest,
which is negative where a test took far longer than usual, and the test that began last. `regard` is imported
from `source` by each fork, which may then have another text each time; or, with SOURCE, once with these tests
and their files. A fork of that process gets another body for one function, and runs tests that pytest has
collected: to collect them again takes longer than most tests.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
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
        if source is not None:
            self.run({}, source)  # waits until the program is loaded: its files may change then

    def run(
        self, tests: Mapping[str, float], source: Path, change: ChangedFunction | None = None
    ) -> tuple[int, str]:
        """The exit code of pytest, which stops where a test fails or does not end; that test.

        `tests`: the seconds that each takes without a change. `change`: for a process with a SOURCE.
        """
        asked = {"tests": [*tests], "source": str(source), "usual": dict(tests)}
        return self._answer(asked | {"change": asdict(change) if change else None})

    def run_files(self, files: Sequence[str], source: Path, *options: str, output: Path) -> int:
        """The exit code of pytest with these options, without limits; `output` gets what it prints."""
        asked = {"tests": [*files], "source": str(source), "options": options, "output": str(output)}
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
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what pytest prints is no answer
    for package in PACKAGES:
        importlib.import_module(package)

    def answer_all(run: Callable[..., tuple[int, str]]) -> None:
        for line in questions:
            print(json.dumps(run(**json.loads(line))), file=answers, flush=True)

    if len(sys.argv) == 1:
        answer_all(forked)
        return
    source, *tests = sys.argv[1:]
    import_from(source)
    with tempfile.TemporaryDirectory() as folder:
        pytest.main([*OPTIONS, f"--basetemp={folder}/tests", *tests], plugins=[Collected(answer_all)])


class Collected:
    """Plugin of pytest: tests that are collected are not run, but forks run some of them."""

    def __init__(self, answer_all: Callable[[Callable[..., tuple[int, str]]], None]) -> None:
        self._answer_all = answer_all

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}

        def run(
            tests: Sequence[str], source: str, usual: Mapping[str, float], change: Mapping[str, Any] | None
        ) -> tuple[int, str]:
            def run_all(plugins: Sequence[object]) -> int:
                if change and not ChangedFunction(**change).exchange():
                    return NOT_RUN
                return run_collected(session, [items[test] for test in tests], plugins)

            return in_fork(run_all, usual)

        self._answer_all(run)
        return True


def run_collected(session: pytest.Session, items: Sequence[pytest.Item], plugins: Sequence[object]) -> int:
    """Runs these tests until one fails; the exit code."""
    for plugin in plugins:
        session.config.pluginmanager.register(plugin)
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return int(pytest.ExitCode.TESTS_FAILED)
    return int(pytest.ExitCode.OK)


def import_from(source: str) -> None:
    os.environ["PYTHONPATH"] = source
    sys.path.insert(0, source)


def forked(
    tests: Sequence[str],
    source: str,
    usual: Mapping[str, float] | None = None,
    options: Sequence[str] = (),
    output: str = os.devnull,
    change: None = None,
) -> tuple[int, str]:
    """Runs these tests; the exit code of pytest, and the last one.

    `usual`: the seconds of each, by which it is limited; None: without a limit.
    """

    def run(plugins: Sequence[object]) -> int:
        import_from(source)
        return int(pytest.main([*OPTIONS, *options, *tests], plugins=[*plugins]))

    return in_fork(run, usual, output)


def in_fork(
    run: Callable[[Sequence[object]], int], usual: Mapping[str, float] | None, output: str = os.devnull
) -> tuple[int, str]:
    """What a function returns in a fork, called with plugins of pytest; and the test that began last."""
    with tempfile.TemporaryFile() as last:
        child = os.fork()
        if child == 0:
            os.setsid()  # so that what it starts can be ended with it
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            written = os.open(output, os.O_WRONLY | os.O_CREAT, 0o644)
            for stream in (1, 2):
                os.dup2(written, stream)
            plugins: list[object] = [LastTest(last.fileno())]
            plugins += [] if usual is None else [TimeLimit(usual)]
            try:
                os._exit(run(plugins))
            finally:  # only where it raises, which is no failure of a test
                os._exit(NOT_RUN)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status), last.read().decode().rstrip()


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
