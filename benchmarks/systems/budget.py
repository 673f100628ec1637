"""A budget of processor time: commands run one after another, all their processes and threads counted.

A command that reaches the end of the budget gets the signal of Ctrl-C, and is killed half a minute later.
What it computes in between is counted too, so a system may use a little more than its budget.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.memory import busy_seconds, processor_seconds
from benchmarks.common.unfit import Unfit

POLL = 0.3  # seconds between two readings of the processor time
PATIENCE = 30.0  # seconds from Ctrl-C to the end
TRANSLATING = 20 * 60.0  # seconds of processor time: a model that learned little may never end its sentences


@dataclass(frozen=True, kw_only=True)
class CommandCost:
    """The cost of a command; `stopped`: True if it reached the end of the budget."""

    cpu: float  # seconds
    wall: float
    others: float  # processor seconds of all other processes meanwhile
    stopped: bool


class Budget:
    """A budget of so many seconds of processor time."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.spent, self.wall, self._others = seconds, 0.0, 0.0, 0.0

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    @property
    def others(self) -> float:
        """Cores used by other processes meanwhile; with many, a second of processor time does less work."""
        return self._others / self.wall if self.wall else 0.0

    def run(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        stdin: Path | None = None,
        stdout: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandCost:
        """Run a command to its end, or to the end of the budget.

        Its output is appended to `log`; its standard output is written to `stdout` if that is given.

        Raises:
            Unfit: the command failed, or there is nothing left to run it with.
        """
        if self.left <= 0:
            raise Unfit(f"nothing of the budget was left for {Path(command[0]).name}")
        ran, code = _run(command, self.left, log, stdin, stdout, env)
        self.spent += ran.cpu
        self.wall += ran.wall
        self._others += ran.others
        if code and not ran.stopped:
            raise Unfit(f"{Path(command[0]).name} failed: {last_line(log)}")
        return ran


def translating(
    command: Sequence[str | Path], *, log: Path, stdin: Path | None = None, stdout: Path | None = None
) -> None:
    """Run a command that translates the test set.

    Raises:
        Unfit: it failed, or it does not end.
    """
    if Budget(TRANSLATING).run(command, log=log, stdin=stdin, stdout=stdout).stopped:
        raise Unfit(f"translating had no end after {TRANSLATING / 60:g} CPU-minutes")


def one_thread() -> dict[str, str]:
    """The environment of every system: one thread, no GPU, nothing fetched from the Hugging Face Hub."""
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
    settings = {"TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **dict.fromkeys(threads, "1"), **settings}


def last_line(log: Path) -> str:
    """The last output line of a failed command, shortened for a table."""
    lines = [line.strip() for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].replace("|", "/")[:200] if lines else "it said nothing"


def _run(
    command: Sequence[str | Path],
    limit: float,
    log: Path,
    stdin: Path | None,
    stdout: Path | None,
    env: Mapping[str, str] | None,
) -> tuple[CommandCost, int]:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background hands that down
        signal.signal(signal.SIGINT, signal.default_int_handler)
    began, busy, stopped_at = time.monotonic(), busy_seconds(), None
    with ExitStack() as files:
        source = files.enter_context((stdin or Path(os.devnull)).open("rb"))
        said = files.enter_context(log.open("ab"))
        out = said if stdout is None else files.enter_context(stdout.open("wb"))
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=source,
            stdout=out,
            stderr=said,
            env={**one_thread(), **(env or {})},
            start_new_session=True,  # by which its processes are found
        )
        used = 0.0
        try:
            while True:
                used = max(used, processor_seconds(process.pid))
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    break
                now = time.monotonic()
                if stopped_at is None and used >= limit:
                    stopped_at = now
                    _signal(process.pid, signal.SIGINT)
                elif stopped_at is not None and now - stopped_at > PATIENCE:
                    _signal(process.pid, signal.SIGKILL)
                time.sleep(POLL)
        except BaseException:
            _signal(process.pid, signal.SIGKILL)
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        _signal(process.pid, signal.SIGKILL)  # children that it left behind
    used = max(used, usage.ru_utime + usage.ru_stime)
    ran = CommandCost(
        cpu=used,
        wall=time.monotonic() - began,
        others=max(0.0, busy_seconds() - busy - used),
        stopped=stopped_at is not None,
    )
    return ran, process.returncode


def _signal(session: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(session, number)
