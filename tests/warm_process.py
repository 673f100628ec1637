"""Processes of Python in which PyTorch and regard are imported already: forks of one that did only that.

A start of Python with PyTorch takes two seconds, more than most of the commands that tests run. What such a
process prints, its exit code and the signals that it hears are its own. Tests of starting, importing and
ending start Python itself; so do these on systems that do not fork.
"""

import atexit
import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO

from tests.unflushed import leave_unflushed

IMPORTED = [
    "torch._dynamo",  # optimisers import it when they are made
    "torch.distributed.fsdp",
    "regard.cli",
    "regard.verbs.translate",
    "regard.verbs.train",
    "regard.verbs.training_run",
    __name__,
]
ROOT = Path(__file__).parents[1]
FORKS = "forkserver" in multiprocessing.get_all_start_methods()


class WarmProcess:
    """`python ARGUMENTS`, begun: the first is a file; or "-m", then a module; or "-c", then a program."""

    def __init__(
        self, arguments: Sequence[object], cwd: object = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.arguments = [str(each) for each in arguments]
        self._folder = tempfile.TemporaryDirectory()
        self._files = [Path(self._folder.name) / name for name in ("stdout", "stderr")]
        self._process = _begun(self.arguments, cwd, env, self._files)

    def wait(self, timeout: float) -> subprocess.CompletedProcess[str]:
        """What it printed and its exit code, when it has ended; a process that lasts longer is killed."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
        output = [path.read_text("utf-8", "replace") if path.exists() else "" for path in self._files]
        self._process.close()
        self._folder.cleanup()
        if code is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout, *output)
        return subprocess.CompletedProcess(self.arguments, code, *output)


class PipedProcess:
    """A warm process for those who talk to it: its three streams are pipes of bytes."""

    def __init__(
        self, arguments: Sequence[object], cwd: object = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.arguments = [str(each) for each in arguments]
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("stdout", "stderr", "stdin")]
            for path in paths:
                os.mkfifo(path)
            self._process = _begun(self.arguments, cwd, env, paths)
            # to open an end waits for the process to open the other: both do it in the same order
            self.stdout: IO[bytes] = open(paths[0], "rb")  # noqa: SIM115
            self.stderr: IO[bytes] = open(paths[1], "rb")  # noqa: SIM115
            self.stdin: IO[bytes] = open(paths[2], "wb")  # noqa: SIM115

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Writes its last input, and reads what it still prints until it has ended."""
        with ThreadPoolExecutor(2) as pool, self.stdout, self.stderr:
            rests = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            with contextlib.suppress(BrokenPipeError), self.stdin:
                self.stdin.write(given)
            try:
                self.wait(timeout)
            finally:
                self.kill()  # or its output would not end
            output, errors = (rest.result() for rest in rests)
        return output, errors

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        return self.returncode

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send_signal(self, number: int) -> None:
        if self._process.pid and self.returncode is None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()


def start_python(
    arguments: Sequence[object], cwd: object = None, env: Mapping[str, str] | None = None
) -> "PipedProcess | subprocess.Popen[bytes]":
    """Starts one such process, whose three streams are pipes."""
    if FORKS:
        return PipedProcess(arguments, cwd, env)
    command, pipe = [sys.executable, *map(str, arguments)], subprocess.PIPE
    return subprocess.Popen(command, cwd=str(cwd or "."), env=env, stdin=pipe, stdout=pipe, stderr=pipe)


def run_together(
    *commands: Sequence[object],
    envs: Sequence[Mapping[str, str]] | None = None,
    timeout: float = 300,
) -> list[subprocess.CompletedProcess[str]]:
    """Runs these processes at the same time.

    `envs`: the environment of each.
    """
    if not FORKS:
        return _started(commands, envs or [os.environ] * len(commands), timeout)
    begun = [
        WarmProcess(each, env=env) for each, env in zip(commands, envs or [None] * len(commands), strict=True)
    ]
    return [process.wait(timeout) for process in begun]


def run_python(
    arguments: Sequence[object],
    cwd: object = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs one such process to its end."""
    if FORKS:
        return WarmProcess(arguments, cwd, env).wait(timeout)
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=str(cwd or "."), env=env, capture_output=True, text=True, timeout=timeout, check=False
    )


def _begun(
    arguments: list[str], cwd: object, env: Mapping[str, str] | None, files: list[Path]
) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    given = (arguments, os.path.abspath(str(cwd or ".")), dict(env or os.environ), files)
    process = context.Process(target=_run, args=given)
    process.start()
    return process


def _started(commands, envs, timeout):
    pipe = subprocess.PIPE
    begun = [
        subprocess.Popen([sys.executable, *map(str, each)], env=env, stdout=pipe, stderr=pipe, text=True)
        for each, env in zip(commands, envs, strict=True)
    ]
    outputs = [process.communicate(timeout=timeout) for process in begun]
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(begun, outputs, strict=True)
    ]


def _run(arguments: list[str], cwd: str, env: dict[str, str], files: list[Path]) -> None:
    """In the fork: what `python ARGUMENTS` does after its start."""
    for number, path in zip((1, 2, 0), files, strict=False):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    if len(files) == 3:  # not those of the first process, which has no input, and files as outputs
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    leave_unflushed()
    # a shell's background job, such as CI may be, ignores it, and so would its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    as_module, as_text = arguments[0] == "-m", arguments[0] == "-c"
    first = cwd if as_module or as_text else str(Path(arguments[0]).resolve().parent)
    named = [each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]
    own = [each for each in sys.path if each not in (str(ROOT), *named)]  # pytest has added the first
    sys.path[:] = [first, *named, *own]
    sys.argv[:] = arguments[1:] if as_module else ["-c", *arguments[2:]] if as_text else arguments
    try:
        if as_module:
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        elif as_text:
            program = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(arguments[1], "<string>", "exec"), vars(program))
        else:
            runpy.run_path(arguments[0], run_name="__main__")
    finally:
        with contextlib.suppress(ValueError):
            sys.stdout.flush()
        atexit._run_exitfuncs()  # which multiprocessing does not
